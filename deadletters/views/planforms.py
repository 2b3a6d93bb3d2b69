"""The form of a run's plan: what a person types, read or refused field by field."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from django.http import QueryDict

from deadletters.views.parameters import moment_of
from deadletters.words.errors import BadChange, BadPlan
from deadletters.words.plans import Plan

_MINUTES = "%Y-%m-%dT%H:%M"
_FIELD_OF = {"deadline_seconds": "deadline_minutes", "stop_share": "stop_percent"}
"""Parts of a plan that are typed in another unit."""


@dataclass(frozen=True, kw_only=True)
class PlanForm:
    """The form as it is shown: texts by field, and what is wrong with one."""

    values: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)


def form_of(plan: Plan) -> PlanForm:
    """Return the form that a plan fills."""
    return PlanForm(
        values={
            "canary": str(plan.canary),
            "ramp": f"{plan.ramp:g}",
            "rate": "" if plan.rate is None else f"{plan.rate:g}",
            "in_flight": str(plan.in_flight),
            "stop_failures": "" if plan.stop_failures is None else str(plan.stop_failures),
            "stop_percent": f"{plan.stop_share * 100:g}",
            "deadline_minutes": f"{plan.deadline_seconds / 60:g}",
            "starts_at": "" if plan.starts_at is None else f"{plan.starts_at.astimezone(UTC):{_MINUTES}}",
            "include_held": "yes" if plan.include_held else "",
            "reason": "",
            "count": "",
        }
    )


def refused(typed: QueryDict, wrong: BadChange | None = None) -> PlanForm:
    """Return the form as it was sent, with what is wrong."""
    values = {name: typed.get(name, "")[:1_000] for name in form_of(Plan()).values}
    errors = {_FIELD_OF.get(wrong.field, wrong.field): str(wrong)} if wrong else {}
    return PlanForm(values=values, errors=errors)


def plan_of(typed: QueryDict) -> Plan:
    """Read a plan; a field that is not there is as usual. Raises BadPlan with the field."""
    usual = form_of(Plan()).values
    text = {name: typed.get(name, value).strip() for name, value in usual.items()}
    return Plan(
        canary=_whole("canary", text["canary"] or "0"),
        ramp=_number("ramp", text["ramp"] or "0"),
        rate=_optional(_number, "rate", text["rate"]),
        in_flight=_whole("in_flight", text["in_flight"]),
        stop_failures=_optional(_whole, "stop_failures", text["stop_failures"]),
        stop_share=_percent("stop_percent", text["stop_percent"]),
        deadline_seconds=_seconds("deadline_minutes", text["deadline_minutes"]),
        include_held=typed.get("include_held", "") == "yes",
        starts_at=_moment("starts_at", text["starts_at"]),
    )


def count_of(typed: QueryDict) -> int | None:
    """Read the number of letters that was typed to confirm, with or without commas; None without one."""
    text = "".join(typed.get("count", "").replace(",", "").split())
    return _whole("count", text) if text else None


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise BadPlan(name, "must be a whole number")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        number = float(text) if text.isascii() and "_" not in text else float("nan")
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise BadPlan(name, "must be a number")
    return number


def _optional(read: Callable[[str, str], Any], name: str, text: str) -> Any:
    return read(name, text) if text else None


def _percent(name: str, text: str) -> float:
    percent = _number(name, text)
    if not 0 < percent <= 100:
        raise BadPlan(name, "must be more than 0 and at most 100")
    return percent / 100


def _seconds(name: str, text: str) -> int:
    minutes = _number(name, text)
    if not 1 / 60 <= minutes <= 7 * 24 * 60:
        raise BadPlan(name, f"must be at most {7 * 24 * 60:,}, which are 7 days, and more than 0")
    return round(minutes * 60)


def _moment(name: str, text: str) -> datetime | None:
    try:
        return moment_of(name, text)
    except BadChange as exc:
        raise BadPlan(name, exc.problem) from exc
