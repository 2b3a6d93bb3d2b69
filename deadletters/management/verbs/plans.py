"""The plan of a run, as options."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from deadletters.words.plans import Plan

NEVER = "never"


def add_plan(parser: ArgumentParser) -> None:
    """Add an option for each part of a plan; one that is left out is as usual."""
    usual = Plan()
    group = parser.add_argument_group("plan of a run")
    group.add_argument("--canary", type=int, help=f"letters that are sent first, 0 = none ({usual.canary})")
    group.add_argument("--ramp", type=float, help=f"times by which each wave is larger, 0 = the rest ({usual.ramp:g})")
    group.add_argument("--rate", type=float, help="letters per second (no limit)")
    group.add_argument("--in-flight", type=int, help=f"most that are sent without an answer ({usual.in_flight:,})")
    group.add_argument(
        "--stop-failures",
        type=_number_or_never,
        help=f"failures at which it may stop itself, or {NEVER} ({usual.stop_failures})",
    )
    group.add_argument(
        "--stop-share", type=float, help=f"share of the answers that they must be ({usual.stop_share:g})"
    )
    group.add_argument(
        "--deadline-seconds", type=int, help=f"after that a letter gave no answer ({usual.deadline_seconds:,})"
    )
    group.add_argument("--include-held", action="store_true", default=None, help="what a person holds, too")
    group.add_argument("--starts-at", metavar="TIME", help="with a zone, such as 2026-01-31T12:00+00:00 (now)")


PARTS = ("canary", "ramp", "rate", "in_flight", "stop_failures", "stop_share", "deadline_seconds", "include_held")


def plan_of(options: Namespace) -> Plan:
    """Return the plan that the options are; raises BadPlan."""
    given = {name: value for name in PARTS if (value := getattr(options, name)) is not None}
    if given.get("stop_failures") == NEVER:
        given["stop_failures"] = None
    return Plan.from_json({**given, "starts_at": options.starts_at})


def _number_or_never(text: str) -> int | str:
    if text == NEVER:
        return text
    try:
        return int(text)
    except ValueError as exc:
        raise ArgumentTypeError(f"must be a number or {NEVER}") from exc
