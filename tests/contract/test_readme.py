"""The README: its settings table is complete, its commands exist."""

import re
import tomllib
from pathlib import Path

from django.core.management import get_commands

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
READS = re.compile(r"\benv\.\w+\(\s*\"([A-Z_]+)\"")


def test_settings_table_names_every_variable_that_is_read_and_no_other() -> None:
    sources = [*(ROOT / "deadletters").rglob("*.py"), *(ROOT / "queues").rglob("*.py")]
    read = {name for source in sources for name in READS.findall(source.read_text())}

    assert set(re.findall(r"^\| `([A-Z_]+)` \|", README, re.MULTILINE)) == read
    assert len(read) > 10


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


def _code(text: str) -> list[str]:
    """Return what stands in code blocks and back-ticks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return blocks + [
        code + "\n" for code in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    ]
