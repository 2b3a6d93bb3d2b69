"""Builds that were deployed, and their replays: what may be mended by a new build gets one free attempt on it.

A build is new to its service when no process of the service has reported it before; a restart and a return to an
older build are nothing new. The first build of a service ships nothing: it is only registered, unless letters wait
that died on another one. For each group with something to replay one run begins, its canary first, each group some
seconds after the one before. What the older build's workers still kill while it is replaced is looked at once more
when they are gone; a group is replayed on a build once.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from deadletters import counting
from deadletters.models import Generation, RecoveryRun, RunKind
from deadletters.queries import replays
from deadletters.recovery import runs
from deadletters.store.audit import Actor
from deadletters.words.errors import BadBuild
from deadletters.words.plans import Plan
from deadletters.words.scopes import Replay
from queues import instances
from queues.store.presence import Build

log = structlog.get_logger(__name__)

PAGE_GROUPS = 200
"""Groups that one transaction looks at."""

FIXED_GROUPS = 200
"""Groups marked fixed in a build that runs already, whose replays one check begins."""

STAGGER_SECONDS = 5.0
MAX_STAGGER_SECONDS = 3600.0
"""How long after the one before the next group starts, and how long after the first one any does."""

MAX_BUILD = 200
"""Characters of a build's and a service's name."""


def check() -> int:
    """Register the builds of the live processes and go on with their replays; return how many runs began.

    Any number of processes may check at once, and each may die at any point: the next check goes on.
    """
    live = register_all(instances.live_builds())
    counting.fold()  # a group is not there before its first death is folded
    begun = sum(_replay(generation_id, live) for generation_id in replays.due(live))
    builds = Generation.objects.filter(pk__in=live).order_by("build").values_list("build", flat=True).distinct()
    return begun + sum(_replay_fixed(build) for build in builds)


def register_all(builds: Iterable[Build]) -> Sequence[int]:
    """Register builds and return their ids; one without a name is logged as an error and left out."""
    known: list[Mapping[str, Any]] = []
    for build in builds:
        try:
            known.append(_checked(build))
        except BadBuild as exc:
            log.error("build_not_registered", service=build.service, error=str(exc))
    return replays.register(known) if known else []


def register(*, service: str, build: str, types: Sequence[str], perspectives: Sequence[str] = ()) -> int:
    """Register one build, or note that it is still there, and return its id; raises BadBuild."""
    reported = Build(service=service, name=build, types=types, perspectives=perspectives)
    (generation_id,) = replays.register([_checked(reported)])
    return generation_id


def _checked(build: Build) -> Mapping[str, Any]:
    if not build.name or not build.name.strip():
        raise BadBuild(build.service or "a service without a name", "has no name: it sets no GENERATION")
    for name, text in (("its own name", build.service), ("the name", build.name)):
        if not 1 <= len(text) <= MAX_BUILD:
            raise BadBuild(build.service[:MAX_BUILD], f"cannot be kept: {name} must have 1 to {MAX_BUILD} characters")
    return {
        "service": build.service,
        "build": build.name,
        "types": list(build.types),
        "perspectives": list(build.perspectives),
    }


def _replay(generation_id: int, live: Sequence[int]) -> int:
    """Begin the runs of a build, page by page; return how many. Somebody else at work at it: none."""
    begun, after = 0, replays.FIRST
    while True:
        with transaction.atomic():
            row = Generation.objects.select_for_update(skip_locked=True).filter(pk=generation_id).first()
            if row is None or generation_id not in replays.due(live):
                return begun
            page = replays.groups_to_replay(row.build, after, PAGE_GROUPS)
            begun += _begin_all(page.group_ids, row.build)
            _note(row, has_begun=bool(page.group_ids), has_ended=page.last is None)
        if page.last is None:
            return begun
        after = page.last


def _note(row: Generation, *, has_begun: bool, has_ended: bool) -> None:
    noted: dict[str, Any] = {}
    if has_begun:
        noted["replay_begun_at"] = Coalesce(F("replay_begun_at"), Now())
    if has_ended:
        noted["replay_ended_at"] = Now()
        log.info("build_replayed", service=row.service, build=row.build)
    if noted:
        Generation.objects.filter(pk=row.pk).update(**noted)


def _replay_fixed(build: str) -> int:
    """Begin the runs of groups that were marked fixed in a build after it was replayed."""
    with transaction.atomic():
        return _begin_all(replays.fixed_groups_to_replay(build, FIXED_GROUPS), build)


def _begin_all(group_ids: Sequence[UUID], build: str) -> int:
    """Begin a run for each group, unless somebody did; return how many began."""
    if not group_ids:
        return 0
    number = RecoveryRun.objects.filter(kind=RunKind.REPLAY, generation=build).count()
    begun = 0
    for group_id in group_ids:
        begun += _begin(group_id, build, number + begun)
    return begun


def _begin(group_id: UUID, build: str, number: int) -> bool:
    """Begin one run, so much later the more groups of the build began before it."""
    wait = timedelta(seconds=min(number * STAGGER_SECONDS, MAX_STAGGER_SECONDS))
    run_id = runs.begin(
        kind=RunKind.REPLAY,
        scope=Replay(group_id=group_id, build=build),
        plan=Plan(),
        by=Actor(name=f"build {build}"),
        group_id=group_id,
        generation=build,
        starts_at=timezone.now() + wait,
    )
    return run_id is not None
