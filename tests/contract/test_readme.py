"""The README: its settings table is complete, its commands exist."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from django.core.management import get_commands

from deadletters.conf import Conf as PagesConf
from queues.conf import Conf

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
READS = re.compile(r"\benv\.\w+\(\s*\"([A-Z_]+)\"")


def test_settings_table_names_every_variable_that_is_read_and_no_other() -> None:
    sources = [*(ROOT / "deadletters").rglob("*.py"), *(ROOT / "queues").rglob("*.py")]
    read = {name for source in sources for name in READS.findall(source.read_text())}

    assert set(_named_by_the_table("variable")) == read
    assert len(read) > 10


def test_table_of_the_queues_names_every_setting_and_no_other() -> None:
    assert sorted(_named_by_the_table("key of `QUEUES`")) == sorted(f.name.upper() for f in fields(Conf))


def test_table_of_the_pages_names_every_setting_and_no_other() -> None:
    assert sorted(_named_by_the_table("key of `DEADLETTERS`")) == sorted(f.name.upper() for f in fields(PagesConf))


def test_no_setting_is_read_past_the_environment_module() -> None:
    for source in (ROOT / "deadletters" / "project").glob("*.py"):
        named = re.findall(
            r"environ(?:\.get\(|\[)\s*\"(DEADLETTERS_\w+|DATABASE_URL|CELERY_BROKER_URL)", source.read_text()
        )
        assert named == [], source.name


def test_commands_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    scripts = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])
    known = {"make": targets, "manage.py": set(get_commands()), "deadletters": {"run", "services"}}
    named = re.findall(r"(?:\b(make|deadletters)|(manage\.py)) (\w+)(?=[ `\n])", "\n".join(_code(README)))

    assert scripts == {"deadletters"}
    assert {"run", "test"} <= {word for _, _, word in named}
    for make_or_script, manage, word in named:
        assert word in known[make_or_script or manage]


def _named_by_the_table(head: str) -> list[str]:
    """Return what stands in back-ticks in the first column of the table whose first heading is `head`."""
    table = README.partition(f"| {head} |")[2].partition("\n\n")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return re.findall(r"`(\w+)`", " ".join(first_cells))


def _code(text: str) -> list[str]:
    """Return what stands in code blocks and back-ticks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return blocks + [
        code + "\n" for code in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    ]
