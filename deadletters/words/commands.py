"""What a page does, as the line of a shell that does the same."""

import shlex

from deadletters.words.filters.listfilter import ListFilter

PROGRAM = ("python", "manage.py", "dead_letters")


def command_for(verb: str, *words: object, filters: ListFilter | None = None, **options: object) -> str:
    """Return the line of a verb such as "recover" or "runs stop", quoted; an option that is None or False is left out.

    filters: their values become options; with one that is empty, a recovery is of everything.
    """
    parts = [*PROGRAM, *verb.split(), *map(str, words)]
    if filters is not None:
        if verb in ("recover", "purge"):
            parts.append("--everything" if filters.is_empty else "--all")
        parts += [f"--{name}={value}" for name, value in filters.parts()]
    for name, value in options.items():
        if value is not None and value is not False:
            flag = f"--{name.replace('_', '-')}"
            parts.append(flag if value is True else f"{flag}={value}")
    return shlex.join(parts)
