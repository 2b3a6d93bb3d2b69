"""Tags of the pages: times, states, payload trees, tracebacks; all text is escaped, all secrets masked."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import template
from django.conf import settings
from django.templatetags.static import static
from django.urls import get_script_prefix, get_urlconf, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from deadletters.conf import conf
from deadletters.models import DeadLetter, FailureGroup, GroupState, RecoveryStatus
from deadletters.queries.messages import Detail
from deadletters.templatetags import trees
from deadletters.words.charts import Sparkline
from deadletters.words.charts import sparkline as draw_sparkline
from deadletters.words.errortexts import Relation, Step, steps_of
from deadletters.words.filters import SOURCES, STATUSES, reason_name
from deadletters.words.filters.listfilter import ListFilter
from queues.models import Source
from queues.words.redaction import mask_text
from queues.words.text import cut, visible

register = template.Library()

MAX_ERROR = 64_000
"""Characters of an error text that a page shows."""

MAX_NAME = 600
"""Characters of a message type, a build, a subject and other names that a page shows."""

MAX_LINKED = 1_000
"""Characters of a subject that an address holds."""

MAX_COUNTED = 10_000

_NONE = UUID(int=0)
_STATES = {
    RecoveryStatus.PENDING: ("open", "Open"),
    RecoveryStatus.RECOVERING: ("recovering", "Recovering"),
    RecoveryStatus.HELD: ("held", "Held"),
    RecoveryStatus.RECOVERED: ("recovered", "Recovered"),
    RecoveryStatus.PERMANENTLY_FAILED: ("given-up", "Given up"),
}
_CAUSES = {
    "budget_spent": "It failed as often as it may.",
    "terminal": "Its handler said that it can never succeed.",
    "delay_cap": "It asked to wait more often than it may.",
    "worker_lost": "The process that ran it was lost, as often as it may be.",
    "no_handler": "No live worker handles its type.",
    "unreadable": "Its payload cannot be read.",
    "imported": "A broker had given up on it.",
    "operator": "A person moved it here.",
}
_STEPS = ((60, "s", 1), (3600, "min", 60), (86400, "h", 3600), (86400 * 60, "d", 86400))


@register.filter
def ago(moment: datetime, now: datetime) -> str:
    """Return how long ago, in the largest fitting unit; how far ahead for what is more than a minute off."""
    seconds = int((now - moment).total_seconds())
    if seconds < -60:
        return f"in {_span(-seconds)}"
    return f"{_span(seconds)} ago" if seconds > 0 else "now"


def _span(seconds: int) -> str:
    for below, unit, size in _STEPS:
        if seconds < below:
            return f"{seconds // size} {unit}"
    return f"{seconds // 86400:,} d"


@register.simple_tag
def moment(at: datetime | None, now: datetime) -> SafeString | str:
    """Render a time: relative, with the absolute one in UTC behind it."""
    if at is None:
        return "–"
    utc = at.astimezone(UTC)
    return format_html(
        '<time class="ago" datetime="{}" title="{} UTC">{}</time>',
        utc.isoformat(),
        f"{utc:%Y-%m-%d %H:%M:%S}",
        ago(at, now),
    )


@register.simple_tag
def clock(at: datetime) -> SafeString:
    """Render a time absolutely, in UTC until the viewer's zone is known."""
    utc = at.astimezone(UTC)
    return format_html(
        '<time class="clock" datetime="{}" title="{} UTC">{} UTC</time>',
        utc.isoformat(),
        f"{utc:%Y-%m-%d %H:%M:%S.%f}",
        f"{utc:%Y-%m-%d %H:%M:%S}",
    )


@register.simple_tag
def state(status: int) -> SafeString:
    """Render a recovery status as a chip with a shape, so that colour is never alone."""
    key, name = _STATES.get(RecoveryStatus(status), ("open", str(status)))
    return format_html('<span class="chip state-{}">{}{}</span>', key, icon(f"state-{key}"), name)


@register.simple_tag
@lru_cache(maxsize=128)
def icon(name: str) -> SafeString:
    """Render an icon of the sprite; it says nothing to a screen reader. A page of a list has three in each row."""
    sprite = static("deadletters/img/icons.svg")
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>', sprite, name)


@register.filter
def reason(number: int) -> str:
    """Return a failure reason as it is filtered by."""
    return reason_name(number)


@register.filter
def spaced(name: str) -> str:
    """Return a name of the code as words."""
    return str(name).replace("_", " ")


@register.filter
def cause_words(cause: str | None) -> str:
    """Say in a sentence why a letter is dead."""
    return _CAUSES.get(cause or "", "Its source did not say why.")


@register.filter
def source_name(source: str) -> str:
    """Return a source table's name for people."""
    return dict(Source.choices).get(source, source)


_MODULE = re.compile(r"^(?:[A-Za-z_]\w*\.)+(?=[A-Z]\w*(?: \[[^\]\n]{1,40}\])?(?::|$))")


@register.filter
def without_module(line: str) -> str:
    """Return an error line without its type's module, which would fill a narrow column."""
    return _MODULE.sub("", line)


@register.filter
def masked(text: str | None) -> str:
    """Return a text with secrets masked, cut where it is longer than any that a page shows."""
    return mask_text(cut(text or "", MAX_ERROR))


@register.filter
def name(text: str) -> str:
    """Return a name with secrets masked and control characters visible, cut where nobody sends one so long."""
    return mask_text(visible(cut(text, MAX_NAME)))


@register.filter
def error_steps(text: str | None) -> Sequence[Step]:
    """Return an error text as the exceptions of its chain: messages, own frames, folded library frames."""
    return steps_of(visible(masked(text)), conf().own_code)


_RELATIONS = {
    Relation.CAUSE: "Its direct cause",
    Relation.CONTEXT: "It was raised while handling",
    Relation.BEHIND: "Behind it",
    Relation.MEMBER: "One of its group",
}


@register.filter
def relation_words(relation: Relation) -> str:
    """Say what an exception has to do with the one before it."""
    return _RELATIONS[relation]


@register.simple_tag
def payload(letter: DeadLetter) -> trees.Drawn:
    """Render the payload as a tree, with the places of what is masked in it."""
    return trees.draw(letter.envelope, "event_data")


@register.simple_tag
def metadata(letter: DeadLetter | Detail) -> SafeString:
    """Render the metadata, headers among them, as a tree."""
    return trees.render(letter.metadata)


@register.simple_tag
def detail_tree(structure: str) -> SafeString:
    """Render the detail in a failure's structure as a tree."""
    return trees.render(structure, "detail")


@register.filter
def has_detail(structure: str | None) -> bool:
    """Say whether a failure's structure holds detail beside its subjects."""
    return '"detail":' in (structure or "")


@register.filter
def masked_headers_of(letter: DeadLetter) -> Sequence[str]:
    """Return the names of the headers of which something is masked, as JSON pointers."""
    return trees.masked_headers(letter.metadata)


@register.filter
def headers_of(letter: DeadLetter | Detail) -> Sequence[tuple[str, str]]:
    """Return the message's headers, masked."""
    return trees.headers(letter.metadata)


@register.simple_tag
def query(filters: ListFilter, **changes: Any) -> str:
    """Return the filter as a query string with changes."""
    return filters.query(**{name: str(value) for name, value in changes.items()})


@register.simple_tag
def group_state(group: FailureGroup) -> SafeString:
    """Render the state of a group's triage as a chip with a shape."""
    known = GroupState(group.state)
    name = "Fixed" if known is GroupState.FIXED else known.label
    return format_html('<span class="chip group-{}">{}{}</span>', known.value, icon(f"group-{known.value}"), name)


@register.filter
def group_title(group: FailureGroup) -> str:
    """Return what a group is called; one that is not named yet by its sample."""
    return mask_text(group.title or group.sample_line or "") or "A fault without a text"


@register.simple_tag
def quiet(row: DeadLetter | FailureGroup, now: datetime) -> str:
    """Say until when a letter or a group is quiet; empty when it is not."""
    until = row.quiet_until
    said = [f"until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"] if until is not None and until > now else []
    if row.quiet_until_generation:
        said.append(f"until build {row.quiet_until_generation}")
    if isinstance(row, FailureGroup) and row.quiet_until_count:
        said.append(f"until {row.quiet_until_count:,} letters")
    return "quiet " + ", ".join(said) if said else ""


@register.simple_tag
def sparkline(hours: Sequence[int], now: datetime) -> Sparkline:
    """Draw deaths by hour, the present hour last."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    return draw_sparkline(hours, width=96, height=24, ends_at=this_hour)


@register.simple_tag
def address(name: str, identity: UUID) -> str:
    """Return an address of a letter or a group by its id: looking up each that a list has takes longer than its row."""
    return _looked_up(name, _NONE, *_where()).replace(str(_NONE), str(identity))


def _where() -> tuple[str, Any]:
    """Return what an address depends on besides its name: where the host is, and which URLs a request has."""
    return get_script_prefix(), get_urlconf() or settings.ROOT_URLCONF


@lru_cache(maxsize=64)
def _looked_up(name: str, identity: UUID | None, _prefix: str, _urls: Any) -> str:
    return reverse(f"deadletters:{name}", args=[] if identity is None else [identity])


@register.filter
def by_state(numbers: Mapping[int, int]) -> Sequence[tuple[str, int, int]]:
    """Return (name as filters write it, status, count) of every recovery status."""
    return [(name, status, numbers.get(status, 0)) for name, status in STATUSES.items()]


@register.filter
def short_source(source: str) -> str:
    """Return a source's name as addresses write it."""
    return next((name for name, table in SOURCES.items() if table == source), source)


@register.filter
def capped(number: int) -> str:
    """Write a count that is counted up to 10,000 and one more."""
    return "10,000+" if number > MAX_COUNTED else f"{number:,}"


@register.filter
def thousands(number: int) -> str:
    """Write a count in groups of three digits."""
    return f"{number:,}"


_SORTS = {
    "last_seen": "last seen",
    "first_seen": "newest",
    "open": "most open",
    "total": "most letters",
    "rate": "most deaths lately",
}


@register.filter
def sort_name(name: str) -> str:
    """Return the name of an order for people."""
    return _SORTS.get(name, name)


_DECISIONS = {"hold": "Hold", "release": "Release", "give_up": "Give up", "reopen": "Open again"}


@register.filter
def decision_name(name: str) -> str:
    """Return the name of a decision about a letter for people."""
    return _DECISIONS.get(name, name)


@register.simple_tag
def subject_query(kind: str, identity: str, after: object = "") -> str:
    """Return the query string of a subject's page."""
    page = {"after": str(after)} if after else {}
    return urlencode({"type": kind, "id": identity, **page})


@register.simple_tag
def subject_link(kind: str, identity: str) -> SafeString:
    """Render a subject as a link to its page."""
    shown = format_html("<span>{}</span> {}", name(kind), name(identity))
    if len(kind) + len(identity) > MAX_LINKED:
        return format_html('<span class="subject">{}</span>', shown)
    address = f"{_looked_up('subject', None, *_where())}?{subject_query(kind, identity)}"
    return format_html('<a class="subject" href="{}">{}</a>', address, shown)


@register.simple_tag
def web_link(text: str) -> SafeString | str:
    """Render a web address as a link, and any other text as text."""
    shown = mask_text(text)
    if not re.match(r"https?://[^\s]+$", text, re.IGNORECASE) or shown != text:
        return shown
    return format_html('<a href="{}" rel="noopener noreferrer" target="_blank">{}</a>', text, text)
