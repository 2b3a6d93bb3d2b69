"""What every template keeps to, so that the policy holds and pages work without script."""

import re
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
