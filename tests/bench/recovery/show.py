"""The three acts of the show, and what must be true after each."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connection
from django_celery_beat.models import IntervalSchedule, PeriodicTask, PeriodicTasks

from deadletters.models import DeadLetter
from deadletters.words.fingerprints import fingerprint
from queues import send
from queues.drainer import drain
from tests.bench.recovery import letters
from tests.bench.recovery.letters import LATER, ORDER, SILENT
from tests.bench.soak.workers import ROOT, Workers

QUEUES = "inbox,outbox,perspective,recovery"
CELERY = ("-m", "celery", "-A", "deadletters.project", "worker", "-Q", QUEUES, "-c", "1", "-l", "WARNING")
QUIET = ("--without-mingle", "--without-gossip")
BEAT = ("-m", "celery", "-A", "deadletters.project", "beat", "-l", "WARNING", "--pidfile=")
DEADLINE = 3_600
LATER_ON = "2100-01-01T00:00+00:00"
_PAUSE = "INSERT INTO source_pauses (source, kind, value, paused_by) VALUES ('wh_inbox', 'type', %s, 'show')"
ANSWER_SECONDS = 60
IN_FLIGHT = 300
"""Few enough that all are answered within that time on a machine that does something else, too."""
SWEEP_SECONDS = 5
LOOKS_EVERY_SECONDS = 5
"""Each look is a process that loads all of the product: more often they would take the workers' time."""
SKIPPED = 40
"""Letters that somebody changes between the freeze and the start."""


class TooLate(Exception):
    """Something did not happen in time."""


@dataclass
class Show:
    """`count` letters, and what is done to them."""

    count: int
    folder: Path
    faults: list[str] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Mapping[str, Any]:
        """Return what there is to tell; `faults` is empty when all is well."""
        _execute(
            "CREATE TABLE show_effects (id bigint GENERATED ALWAYS AS IDENTITY, type text, number integer, stream uuid)"
        )
        error, known = _a_death()
        letters.make(ORDER, self.count, build="build-1", error=error, fingerprint=known)
        for act in (self._stops_itself, self._is_recovered, self._is_replayed):
            started = time.monotonic()
            act()
            self.told[act.__name__.strip("_") + "_seconds"] = round(time.monotonic() - started, 1)
        return {"letters": self.count, **self.told, "faults": self.faults}

    def _stops_itself(self) -> None:
        with self._workers("build-1"):
            code, run = self._command("recover", "--all", "--type", ORDER, "--canary", "10", "--yes", "--wait")
        self._expect("a run on a broken handler exits with", code, 1)
        self._expect("its state", run["state"], "stopped")
        self._expect("its letters", _some(run), {"failed_again": 10, "skipped": run["letters"] - 10})

    def _is_recovered(self) -> None:
        (self.folder / "mended").touch()
        _execute(_PAUSE, SILENT)
        _sweep_often()
        with self._workers("build-1") as workers:
            run_id = self._prepared()
            _until(lambda: self._shown(run_id)["totals"]["recovered"] > self.count // 5, "a fifth is recovered")
            workers.kill_all()
            self.told["recovered_at_the_kill"] = self._shown(run_id)["totals"]["recovered"]
            workers.start()
            _until(lambda: self._shown(run_id)["state"] == "finished", "the run is finished")
        self._check_sums(run_id)

    def _prepared(self) -> str:
        """Freeze all letters for a later start, change some of them, and let the run begin."""
        answers = ("--deadline-seconds", str(ANSWER_SECONDS), "--in-flight", str(IN_FLIGHT))
        plan = ("--stop-failures", "never", *answers, "--starts-at", LATER_ON)
        _, run = self._command("recover", "--everything", "--yes", *plan)
        _execute(
            "UPDATE wh_dead_letters SET owner = 'olga', row_version = row_version + 1 WHERE dead_letter_id IN"
            " (SELECT dead_letter_id FROM recovery_items WHERE run_id = %s ORDER BY place DESC LIMIT %s)",
            run["run_id"],
            SKIPPED,
        )
        _execute("UPDATE recovery_runs SET starts_at = now() WHERE run_id = %s", run["run_id"])
        return str(run["run_id"])

    def _check_sums(self, run_id: str) -> None:
        found = _some(self._shown(run_id))
        again = sum(letters.fails_again(n) for n in range(self.count))
        self.told["totals"] = found
        self._expect("the sum of its letters", sum(found.values()), self.count)
        self._expect("letters changed since the freeze", found.get("skipped"), SKIPPED)
        self._expect("letters that gave no answer", found.get("no_answer"), self.count // letters.SILENT_SHARE)
        if not again - 50 <= found.get("failed_again", 0) <= again:
            self.faults.append(f"failed again: {found.get('failed_again')} of {again}")
        ((effects, distinct),) = _execute("SELECT count(*), count(DISTINCT (type, number)) FROM show_effects")
        self._expect("effects that are there twice", effects - distinct, 0)
        self._expect("effects", effects, found["recovered"])
        unordered = "SELECT count(*) FROM (SELECT number < lag(number) OVER (PARTITION BY stream ORDER BY id) AS back"
        ((back,),) = _execute(f"{unordered} FROM show_effects WHERE stream IS NOT NULL) o WHERE back")
        self._expect("effects out of their stream's order", back, 0)

    def _is_replayed(self) -> None:
        """Let two groups die on the present build, a person hold one, and a new build come."""
        for name in ("mended in the new build", "held by a person"):
            known = fingerprint(name, cause="budget_spent", reason=99)
            letters.make(LATER, 1_000, build="build-1", error=name, fingerprint=(known.value, known.version))
        self._command("tick")
        ((group,),) = _execute("SELECT group_id FROM failure_groups WHERE sample_line = 'held by a person'")
        held, _ = self._command("triage", "--group", str(group), "--decision", "hold")
        self._command("tick")
        self._expect("holding a group exits with", held, 0)
        with self._workers("build-2"):
            _until(lambda: self._states(1_000) == {"recovered": 1_000}, "the new build has replayed the group")
        statuses = dict(
            _execute(
                "SELECT recovery_status, count(*) FROM wh_dead_letters WHERE error_line = 'held by a person' GROUP BY 1"
            )
        )
        self._expect("letters that a person holds, by status", statuses, {2: 1_000})

    def _states(self, least: int) -> Mapping[str, int]:
        return dict(
            _execute(
                "SELECT i.state, count(*) FROM recovery_items i JOIN recovery_runs r USING (run_id)"
                " JOIN wh_dead_letters l USING (dead_letter_id)"
                " WHERE r.kind = 'replay' AND l.message_type = %s GROUP BY 1 HAVING count(*) >= %s",
                LATER,
                least,
            )
        )

    def _workers(self, build: str) -> "Staff":
        commands = [*[(*CELERY, *QUIET)] * 2, BEAT]
        return Staff(Workers(commands=commands, folder=self.folder, environment={"SHOW_BUILD": build}))

    def _shown(self, run_id: str) -> Mapping[str, Any]:
        return self._command("runs", "show", run_id)[1]

    def _command(self, *arguments: str) -> tuple[int, Mapping[str, Any]]:
        """Run `manage.py dead_letters`; return its exit code and the last object that it said."""
        command = [sys.executable, "manage.py", "dead_letters", *arguments, "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE, check=False)
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr)
        lines = done.stdout.strip().splitlines()
        return done.returncode, json.loads(lines[-1]) if lines else {}

    def _expect(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.faults.append(f"{what}: {found}, not {wanted}")


@dataclass
class Staff:
    """Workers and a beat while a block goes on."""

    workers: Workers

    def __enter__(self) -> "Staff":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.workers.stop()

    def start(self) -> None:
        self.workers.start()

    def kill_all(self) -> None:
        self.workers.kill_all()


def _a_death() -> tuple[str, tuple[str, int]]:
    """Let one order die of the broken handler; return its error and fingerprint, for those that are made."""
    send(ORDER, 0)
    drain("wh_inbox", seconds=None)
    letter = DeadLetter.objects.get()
    letter.delete()
    return letter.error_text or "", (letter.error_fingerprint or "", letter.error_fingerprint_version or 0)


def _sweep_often() -> None:
    """Let the silent letters of each wave be given up soon, as an administrator would."""
    interval, _ = IntervalSchedule.objects.get_or_create(every=SWEEP_SECONDS, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.filter(task="deadletters.sweep_recoveries").update(interval=interval)
    PeriodicTasks.update_changed()


def _some(run: Mapping[str, Any]) -> Mapping[str, int]:
    return {state: count for state, count in run["totals"].items() if count}


def _until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > until:
            raise TooLate(what)
        time.sleep(LOOKS_EVERY_SECONDS)


def _execute(statement: str, *arguments: Any) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchall() if cursor.description else []
