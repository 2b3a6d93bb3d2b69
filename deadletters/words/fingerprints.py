"""Which faults are one fault: fingerprints of recorded error texts, version 2.

Read from the text and not from the exception, so that a recorded failure can be fingerprinted again. Whatever is
changed here, or in `messagetemplates`, gives the same faults other fingerprints: it needs a new VERSION.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice

from deadletters.words.messagetemplates import template_of
from queues.words.outcomes import FailureReason
from queues.words.text import visible

VERSION = 2

MAX_TEXT = 64_000
"""Characters of an error text that are read: half of them from its head, half from its tail."""
MAX_FRAMES = 10
"""Frames of our own code that count of each exception, from where it was raised."""
MAX_TITLE = 120
MAX_PLACE = 200

_HEADER = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'\s+File "(?P<file>[^"]*)", line \d+, in (?P<function>.+)')
_MARGIN = re.compile(r" +[|+] ")
_NEXT = re.compile(r"Behind it:| *\+[+-]*-{4,} \d+ -{4,}")
_OUTWARD = re.compile(
    r"The above exception was the direct cause of|During handling of the above exception, another exception occurred"
)
_MIDDLE_CUT = re.compile(r"… \(cut, [\d,]+ characters\) …")
_CUT = "… (cut, "
_NAME = r"[^\W\d]\w*(?:\.(?:<locals>|[^\W\d]\w*))*"
_NAMED = re.compile(rf"(?P<type>{_NAME})(?: \[(?P<code>[^\[\]]{{1,64}})\])?(?:: ?(?P<message>.*))?")
_FOREIGN_FRAME = re.compile(r"^[ \t]+at \S", re.MULTILINE)

# The pages fold more frames than these; what they fold may change without giving a fault a new fingerprint.
_LIBRARY = re.compile(
    r"[\\/](?:site|dist)-packages[\\/]"
    r"|[\\/]lib(?:64)?[\\/]python\d[\d.]*t?[\\/]"
    r"|[\\/]Python\d+[\\/]Lib[\\/]"
    r"|(?:^|[\\/])queues[\\/](?:drainer|store|transports|words)(?:[\\/]|\.py)"
    r"|^<"
)
_PACKAGE = re.compile(r".*[\\/](?:site|dist)-packages[\\/](?P<package>[^\\/]+)[\\/]")
_HANDLERS = re.compile(r"[\\/]handlers(?:\.py$|[\\/][^\\/]+$)")
_ENGINE = "queues"
_FOLDED_FUNCTIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """What a fault is known by.

    `title`: its type and code, never empty; `template`: its message without the data in it; `place`: where in our own
    code it was raised, as folder/file:function, or empty. All are short.
    """

    value: str
    version: int
    title: str
    template: str
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class _Frame:
    file: str
    function: str


@dataclass(frozen=True, kw_only=True)
class _Raised:
    """One exception of the text. `type` is empty where the text names none."""

    type: str = ""
    code: str = ""
    message: str = ""
    frames: Sequence[_Frame] = ()


def fingerprint(error_text: str | None, *, cause: str, reason: int) -> Fingerprint:
    """Return the fingerprint of what was recorded of a death; of its cause and reason where nothing was.

    The same for texts that differ only in data, line numbers, library frames or install path; another for
    another exception type or code, of the exception or of one behind it, or another place in our own code. Only
    where no frame of our own is recorded does the message count, as its template. Never raises, and reads at most
    MAX_TEXT characters.
    """
    text = _readable(error_text or "")
    if not text.strip():
        return Fingerprint(
            value=cause_fingerprint(cause, reason),
            version=VERSION,
            title=_cause_title(cause, reason),
            template="no reason recorded" if error_text is None else "an empty reason",
        )
    chain = _chain_of(text)
    template = template_of(chain[0].message)
    own_packages = _own_packages(chain)
    places = [_places(raised.frames, own_packages) for raised in chain]
    identity = [_named(chain[0]), *places[0]]
    identity += sorted({" ".join((_named(raised), *its)) for raised, its in zip(chain, places, strict=True)})
    if not any(places):
        identity.append(template.identity)
    return Fingerprint(
        value=_digest("\n".join(identity)),
        version=VERSION,
        title=_title(chain[0]) or template.shown[:MAX_TITLE] or _cause_title(cause, reason),
        template=template.shown,
        place=next((place for its in places for place in its), "")[:MAX_PLACE],
    )


def is_readable(error_text: str) -> bool:
    """Say whether version 2 can read a text: it holds a Python traceback, or begins with a type and its message.

    Stacks of other languages and prose are better served by version 1.
    """
    text = _readable(error_text)
    lines = [_without_margin(line) for line in text.split("\n")]
    if any(map(_HEADER.match, lines)) and any(map(_FRAME.match, lines)):
        return True
    named = _raised(next(filter(None, lines), ""), is_sure=False).type
    return not _FOREIGN_FRAME.search(text) and _is_named_like_python_s(named)


def cause_fingerprint(cause: str, reason: int) -> str:
    """Return the fingerprint of a death without a text; the SQL function of this name returns the same."""
    return _digest(f"cause:{cause}:{reason}")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _readable(text: str) -> str:
    """Return the text as it is or would be stored, with plain line ends, its middle left out when it is too long."""
    half = MAX_TEXT // 2
    if len(text) > MAX_TEXT:
        text = f"{text[:half]}\n… (cut, {len(text):,} characters) …\n{text[-half:]}"
    return visible(text).replace("\r\n", "\n").strip("\n")


def _cause_title(cause: str, reason: int) -> str:
    try:
        name = FailureReason(reason).name.replace("_", " ").lower()
    except ValueError:
        name = f"reason {reason}"
    said = " ".join(visible(cause).replace("_", " ").split()) or "no cause"
    return f"{said[:1].upper()}{said[1:]}, {name}"[:MAX_TITLE]


def _title(raised: _Raised) -> str:
    short = raised.type.rpartition(".")[2]
    return f"{short} [{raised.code}]"[:MAX_TITLE] if raised.code else short[:MAX_TITLE]


def _named(raised: _Raised) -> str:
    return f"{raised.type.replace('<locals>.', '')} [{raised.code}]"


@dataclass
class _Reading:
    """What was read so far: the exceptions named, and the stack being read (None outside of one)."""

    found: list[_Raised] = field(default_factory=list)
    inner: list[_Raised] = field(default_factory=list)
    stack: list[_Frame] | None = None
    begins: bool = False
    is_torn: bool = False

    def line(self, line: str) -> None:
        if _HEADER.match(line):
            self.stack, self.begins, self.is_torn = [], False, False
        elif _OUTWARD.match(line):
            self.inner = [*self.found, *self.inner]
            self.found = []
        elif _MIDDLE_CUT.fullmatch(line):
            self.stack, self.begins, self.is_torn = None, False, True
        elif frame := _FRAME.match(line):
            self._frame(_Frame(file=frame["file"], function=frame["function"].strip()))
        elif _NEXT.match(line):
            self.stack, self.begins = None, True
        elif line.strip() and (self.begins or self.stack is not None) and not line.startswith(("  ", _CUT)):
            self._raised(line)

    def _frame(self, frame: _Frame) -> None:
        if self.stack is None and self.is_torn:
            self.stack = []
        if self.stack is not None:
            self.stack.append(frame)

    def _raised(self, line: str) -> None:
        # Half a stack is that of the outermost exception, or of one that may be there or not by the length of the
        # data before it.
        if not self.is_torn or not self.found:
            self.found.append(replace(_raised(line, is_sure=True), frames=tuple(self.stack or ())))
        self.stack, self.begins, self.is_torn = None, False, False


def _chain_of(text: str) -> Sequence[_Raised]:
    """Return the exceptions of a text, the outermost first; at least one."""
    lines = _whole_lines([_without_margin(line) for line in text.split("\n")])
    start = next((at for at, line in enumerate(lines) if _HEADER.match(line)), len(lines))
    reading = _Reading()
    for line in lines[start:] if start < len(lines) else lines[1:]:
        reading.line(line)
    chain = [*reading.found, *reading.inner]
    if not start:
        return chain or [_Raised(message=_first_line(lines[1:]))]
    head = _raised(lines[0], is_sure=bool(chain))
    head = head if head.message.strip() else replace(head, message=_first_line(lines[1:start]))
    if chain and (chain[0].type, chain[0].code) == (head.type, head.code):
        return [replace(head, frames=chain[0].frames), *chain[1:]]
    if chain and not head.type:
        return chain
    return [head, *chain]


def _whole_lines(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines without those that may be half ones: the neighbours of a cut in the middle."""
    cuts = {at for at, line in enumerate(lines) if _MIDDLE_CUT.fullmatch(line)}
    if not cuts:
        return lines
    return [line for at, line in enumerate(lines) if not at or (at - 1 not in cuts and at + 1 not in cuts)]


def _first_line(lines: Iterable[str]) -> str:
    return next((line.strip() for line in lines if line.strip()), "")


def _without_margin(line: str) -> str:
    """Take off what a traceback of an exception group draws at its left."""
    margin = _MARGIN.match(line)
    return line[margin.end() :] if margin else line


def _raised(line: str, *, is_sure: bool) -> _Raised:
    """Read a line such as "shop.Declined [51]: no funds".

    Where it is not sure that the line names a type, as prose may hold a colon too, the name must be capitalised.
    """
    named = _NAMED.fullmatch(line)
    if named is None or not (is_sure or named["type"].rpartition(".")[2][:1].isupper()):
        return _Raised(message=line)
    return _Raised(type=named["type"], code=named["code"] or "", message=named["message"] or "")


def _is_named_like_python_s(name: str) -> bool:
    """Say whether a capitalised type's modules are not, as those of .NET are."""
    first = name.partition(".")[0]
    return bool(name) and (first == name or not first[:1].isupper() or "<locals>" in name)


def _own_packages(chain: Sequence[_Raised]) -> frozenset[str]:
    """Return the installed packages that are our own code: none, unless no frame lies outside of such packages.

    A service that is installed like a library is known by its handler, which the engine calls.
    """
    files = [frame.file for raised in chain for frame in raised.frames]
    if not all(map(_LIBRARY.search, files)):
        return frozenset()
    packages = map(_PACKAGE.match, filter(_HANDLERS.search, files))
    return frozenset(islice((found["package"] for found in packages if found and found["package"] != _ENGINE), 1))


def _places(frames: Sequence[_Frame], own_packages: frozenset[str]) -> Sequence[str]:
    """Return the places in our own code, from the raise outwards, each once however deep a recursion went."""
    own = (frame for frame in reversed(frames) if _is_own(frame, own_packages))
    return list(islice(dict.fromkeys(map(_place, own)), MAX_FRAMES))


def _is_own(frame: _Frame, own_packages: frozenset[str]) -> bool:
    if frame.function in _FOLDED_FUNCTIONS:
        return False  # Python 3.12 runs most comprehensions without a frame of their own
    if not _LIBRARY.search(frame.file):
        return True
    package = _PACKAGE.match(frame.file)
    return package is not None and package["package"] in own_packages


def _place(frame: _Frame) -> str:
    """Return folder/file:function; what is above the folder is where the code was installed."""
    file = "/".join(re.split(r"[\\/]", frame.file)[-2:])
    return f"{file}:{frame.function.rpartition('<locals>.')[2]}"
