"""The template of an error message: what is left of it when ids, numbers and other data change.

Whatever is changed here changes fingerprints: it needs a new version of them.
"""

import re
from dataclasses import dataclass

from queues.words.redaction import mask_text

MAX_TEXT = 8_200
"""Characters of a message that are read: a recorded one is no longer, with what says that it was cut."""
MAX_TEMPLATE = 300

_CUT = re.compile(r"… \(cut, ")
_OPENING = re.compile(r"(?<!\w)[bBfFrRuU]{0,2}([\"'`“‘«„])")
_CLOSING = {
    opening: re.compile(rf"(?:(?<!\\)|(?<=\\\\)){closing}(?!\w)")
    for opening, closing in {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "„": "[“”]"}.items()
}
_BRACKET = re.compile(r"[\[\]{}]")
_MONTHS = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAYS = "(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
_ZONE = r"(?:\s?(?:Z|UTC|GMT|[+\-]\d{2}:?\d{2})(?!\w))?"
_REPRESENTATIONS = (
    (re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.\-]{1,30}://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}]"), "<url>"),
    (re.compile(r"<([^<>]{1,100}?)(?: object)? at 0x[0-9a-fA-F]+[^<>]*>"), r"<\1>"),
    (re.compile(r"<([^\W\d][\w.]{0,100}): [^<>]*>"), r"<\1>"),
)
_DATA = (
    (re.compile(r"=\([^()]*\)"), "=<value>"),  # of a PostgreSQL key
    (re.compile(r"(?<![\w.+\-])[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){0,8}"), "<email>"),
    (re.compile(rf"(?<!\w)\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK}{_ZONE})?"), "<time>"),
    (
        re.compile(
            rf"(?<!\w)(?:{_DAYS},? )?(?:\d{{1,2}}[ \-]{_MONTHS}|{_MONTHS} \d{{1,2}},?)"
            rf"(?:[ \-]\d{{4}})?(?: {_CLOCK}{_ZONE})?(?!\w)",
            re.IGNORECASE,
        ),
        "<time>",
    ),
    (re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\d{1,5})?(?![\w.]\d)"), "<address>"),
    (re.compile(rf"(?<!\w)(?:-?\d+ days?, )?{_CLOCK}{_ZONE}(?![\w:])"), "<time>"),
    (re.compile(r"(?<![\w:.])(?=[0-9a-fA-F:]*\d)(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?:%\w+)?"), "<address>"),
    (re.compile(r"(?<![\w/.~])(?:~|\.{1,2})?(?:/[^\s/:,;\"'<>()|]+){2,}/?"), "<path>"),
    (re.compile(r"(?<!\w)(?:[A-Za-z]:|\\)\\[^\s,;\"'<>()|]+"), "<path>"),
    # Any locale's digits and grouping, an exponent, a short unit.
    (
        re.compile(r"(?<![\w\-])[+\-−]?[.,]?\d+(?:[.,'’٬٫_]\d+)*(?:[eE][+\-]?\d+)?[^\W\d_]{0,3}%?(?![\w\-])"),
        "<number>",
    ),
    (re.compile(r"(?<![\w\-])[\w\-]*\d[\w\-]*"), "<id>"),
    (re.compile(r"(<\w+>)(?:[\s,;|/&]+\1)+"), r"\1"),
)
_PLACEHOLDER = re.compile(r"<(?:address|email|id|items|number|path|time|url|value)>")
_NEIGHBOURS = re.compile(r"\*[\s,;:./_+*\-]*\*")
_TUPLE = re.compile(r"\(\*,?\)")


@dataclass(frozen=True, kw_only=True)
class Template:
    """A message without its data: `shown` says what kind of data stood where, `identity` only that some did.

    Two kinds may look alike (an id of digits only is a number), so they must not tell two faults apart.
    """

    shown: str
    identity: str


def template_of(message: str) -> Template:
    """Return the template of one message in time linear to its length; never raises."""
    found = _CUT.search(message[:MAX_TEXT])
    is_cut = found is not None or len(message) > MAX_TEXT
    text = " ".join(message[: found.start() if found else MAX_TEXT].split())
    for pattern, placeholder in _REPRESENTATIONS:
        text = pattern.sub(placeholder, text)
    text = _fold_brackets(_fold_quotes(text, is_cut=is_cut), is_cut=is_cut)
    for pattern, placeholder in _DATA:
        text = pattern.sub(placeholder, text)
    return Template(shown=mask_text(text[: 2 * MAX_TEMPLATE])[:MAX_TEMPLATE], identity=_identity(text))


def _identity(text: str) -> str:
    folded = _NEIGHBOURS.sub("*", _PLACEHOLDER.sub("*", text))
    return _TUPLE.sub("(*)", folded)[:MAX_TEMPLATE]


def _fold_quotes(text: str, *, is_cut: bool) -> str:
    """Replace quoted values; of a message that was cut, a value whose end is missing too."""
    parts: list[str] = []
    at = 0
    unclosed: dict[str, int] = {}
    while opening := _OPENING.search(text, at):
        kind = opening[1]
        closing = None if kind in unclosed else _CLOSING[kind].search(text, opening.end())
        if closing is None:
            # None further on has an end either: looking again for each would take quadratic time.
            if kind not in unclosed:
                unclosed[kind] = sum(map(len, parts)) + opening.start() - at
            parts.append(text[at : opening.end()])
            at = opening.end()
            continue
        parts += text[at : opening.start()], "<value>"
        at = closing.end()
    folded = "".join(parts) + text[at:]
    return f"{folded[: min(unclosed.values())]}<value>" if unclosed and is_cut else folded


def _fold_brackets(text: str, *, is_cut: bool) -> str:
    """Replace what stands in square and curly brackets, whatever is nested in it."""
    parts: list[str] = []
    kept, opened, depth = 0, 0, 0
    for bracket in _BRACKET.finditer(text):
        if bracket[0] in "[{":
            opened = opened if depth else bracket.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                parts += text[kept:opened], "<items>"
                kept = bracket.end()
    if depth and is_cut:
        return "".join((*parts, text[kept:opened], "<items>"))
    return "".join((*parts, text[kept:]))
