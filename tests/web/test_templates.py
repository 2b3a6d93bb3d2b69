"""What every template keeps to, so that the policy holds and pages work without script."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
TAG = re.compile(r"<(\w+)((?:[^<>{]|\{[%{].*?[%}]\})*)>")


def tags(path):
    """Return (name, attributes) of each element of a template."""
    return TAG.findall(path.read_text())


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_template_has_no_inline_style_or_script_and_marks_nothing_safe(path):
    text = path.read_text()

    assert not re.search(r"\sstyle\s*=|<style|\son\w+\s*=|hx-on|javascript:|\|\s*safe\b|autoescape off", text)
    assert all("src=" in attributes for name, attributes in tags(path) if name == "script")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_htmx_does_a_browser_without_script_does_too(path):
    for name, attributes in tags(path):
        if "hx-post" in attributes:
            assert name == "form"
            assert re.search(r'\saction="([^"]+)"', attributes)[1] == re.search(r'hx-post="([^"]+)"', attributes)[1]
        if name == "form" and 'method="post"' in attributes:
            after = path.read_text().partition(attributes)[2]
            assert "{% csrf_token %}" in after.partition("</form>")[0]
        if name == "a" and "hx-get" in attributes:
            assert re.search(r'\shref="([^"]+)"', attributes)[1] == re.search(r'hx-get="([^"]+)"', attributes)[1]


NAMES = {"Deadletters", "CSV", "JSON", "Lines", "https", "Enter", "Esc", "order"}
"""Words that are the same in every language: names, formats, keys, and what an example of a filter is made of."""

MARKED = re.compile(r"\{% blocktranslate.*?\{% endblocktranslate %\}", re.DOTALL)
CODE = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
READ_ALOUD = re.compile(r'\s(?:aria-label|title|placeholder|alt)="([^"]*)"')


@pytest.mark.parametrize(
    "path",
    [path for path in TEMPLATES if "patterns" not in path.as_posix()],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_word_that_a_reader_sees_or_hears_is_marked_for_translation(path):
    text = CODE.sub(" ", MARKED.sub(" ", path.read_text()))
    seen = " ".join([re.sub(r"<[^<>]*>|&\w+;", " ", text), *READ_ALOUD.findall(text)])

    assert set(re.findall(r"[^\W\d_]{2,}", seen)) <= NAMES


@pytest.mark.skipif(not shutil.which("xgettext"), reason="gettext is not installed")
def test_makemessages_collects_the_words_of_templates_and_code(tmp_path):
    for folder in ("templates", "deadletters"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.pyc", "sql"))
    (tmp_path / "locale").mkdir()

    collect = [sys.executable, "-m", "django", "makemessages", "--locale=de", "--no-obsolete", "--verbosity=0"]
    subprocess.run(collect, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=120)

    words = (tmp_path / "locale" / "de" / "LC_MESSAGES" / "django.po").read_text()
    assert 'msgid "Why it died"' in words
    assert 'msgid "The note is written."' in words
