"""SQL files, as operations of migrations.

A file is never edited once released: a change is a new file with the next version in its name.
"""

from pathlib import Path

from django.db.migrations import RunSQL

HERE = Path(__file__).parent


def run(name: str, reverse: str, *, folder: Path = HERE, **names: str) -> RunSQL:
    """Return the operation that runs `<folder>/<name>.sql`; `{{key}}` in it becomes `names[key]`."""
    return RunSQL(filled(folder / f"{name}.sql", names), reverse_sql=reverse)


def filled(path: Path, names: dict[str, str]) -> str:
    """Return the file's text with its `{{key}}` placeholders filled."""
    text = path.read_text(encoding="utf-8")
    for key, value in names.items():
        text = text.replace("{{" + key + "}}", value)
    return text
