"""Keyed state: what an access costs, how long a checkpoint holds the loop up, and how state moves.

Every target is a ratio of things measured in one run, or a bound. What needs minutes for one number,
fifty million keys under a bound of memory, is a section of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.machine import import_path
from bench.measure import Run, run
from bench.peers.environments import AbsentError
from bench.plan import Plan
from bench.sections import engines as g
from bench.sections.headgate_jobs import Say
from bench.stats import middle, ratios

ACCESS_WANTED: Final = 0.5
CALLED: Final = "a dict in a function called per record"
PAUSE_P99_WANTED_MS: Final = 10.0
NEW_BYTES_WANTED: Final = 0.05
LIMIT_MB: Final = 2_048
LARGE_MEMORY_MB: Final = 1_024
"""For RocksDB, where a worker may have `LIMIT_MB`: the rest is Python, Arrow and what files pass through."""

JOB: Final = g.Engine(
    "headgate-rocksdb",
    "Headgate, RocksDB",
    "parquet_p2",
    lambda folder, _: ["-m", "bench.state_job", str(folder)],
    size="state_events",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        what: was measured.
        measured: the number that is judged; None: there is none.
        shown: how it is said.
        wanted: the same for the target; empty: nothing is asked.
        met: None where nothing is asked, or where the run is too short to tell.
    """

    what: str
    measured: float | None
    shown: str
    wanted: str = ""
    met: bool | None = None

    def plain(self) -> dict[str, Any]:
        """For the record."""
        return {name: getattr(self, name) for name in self.__slots__}


def measure(plan: Plan, say: Say) -> dict[str, Any]:
    """All but the fifty million keys."""
    sizes = ("--batches", plan.state_batches, "--rounds", plan.state_rounds)
    heap = child("state_access", plan, say, "heap", *plan.state_heap_keys, *sizes)
    rocks = child("state_access", plan, say, "rocksdb", *plan.state_rocks_keys, *sizes)
    pauses = child("state_pauses", plan, say, plan.state_pause_keys, plan.state_pauses)
    small = child("state_checkpoints", plan, say, "heap", plan.state_pause_keys)
    large = child("state_checkpoints", plan, say, "rocksdb", plan.state_keys, length_s=1_200)
    jobs, absent = _jobs(plan, say)
    parts = [heap, rocks, pauses, small, large]
    rows = [
        *access_rows("heap", "dict", "a dict loop", heap.result, plan.smoke),
        *access_rows("heap", "call", CALLED, heap.result, plan.smoke, wanted=None),
        *access_rows("RocksDB", "batched", "rocksdict in batches", rocks.result, plan.smoke),
        *pause_rows(pauses.result, plan.smoke),
        *checkpoint_rows(large.result, plan.smoke),
        *restore_rows("heap, blob", small.result),
        *restore_rows("RocksDB, native", large.result),
        *job_rows(jobs),
    ]
    return {
        "rows": [row.plain() for row in rows],
        "parts": [part.facts() for part in parts],
        "jobs": [done.facts() for pair in jobs for done in pair if done is not None],
        "absent": absent,
        "failed": failures([*parts, *(done for pair in jobs for done in pair if done is not None)]),
    }


def large(plan: Plan, say: Say) -> dict[str, Any]:
    """Many more keys than memory: loaded, updated at random, checkpointed."""
    if not plan.state_large_keys:
        return {"rows": [], "parts": [], "absent": {"": "left out of the smoke form"}, "failed": []}
    done = child(
        "state_checkpoints",
        plan,
        say,
        *("rocksdb", plan.state_large_keys, "--memory-mb", LARGE_MEMORY_MB, "--limit-mb", LIMIT_MB),
        *("--updates", plan.state_large_updates, "--no-restore"),
        length_s=1_800,
    )
    rows = [*large_rows(done.result), *checkpoint_rows(done.result, plan.smoke)]
    return {
        "rows": [row.plain() for row in rows],
        "parts": [done.facts()],
        "absent": {},
        "failed": failures([done]),
    }


def child(module: str, plan: Plan, say: Say, *arguments: object, length_s: float = 300.0) -> Run:
    """A program of this package in a process of its own."""
    say(f"{module} {' '.join(map(str, arguments))}")
    command = [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]
    return run(module, command, plan.timeout_s + length_s, import_path(), say=say)


def _jobs(plan: Plan, say: Say) -> tuple[list[tuple[Run, Run | None]], dict[str, str]]:
    """A job of ours, then Spark's, in each round."""
    pairs: list[tuple[Run, Run | None]] = []
    absent: dict[str, str] = {}
    if plan.smoke:
        absent[g.STATE.key] = "takes too long for the smoke form"
    elif not plan.peers:
        absent[g.STATE.key] = "left out with --no-peers"
    for number in range(plan.state_job_rounds):
        say(f"round {number + 1} of {plan.state_job_rounds}: {JOB.title}")
        ours, theirs = g.run_engine(JOB, plan), None
        if not absent:
            say(f"round {number + 1} of {plan.state_job_rounds}: {g.STATE.title}")
            try:
                theirs = g.run_engine(g.STATE, plan)
            except AbsentError as error:
                absent[g.STATE.key] = str(error)
        pairs.append((ours, theirs))
    return pairs, absent


def access_rows(
    backend: str,
    other: str,
    against: str,
    told: dict[str, Any],
    smoke: bool,
    wanted: float | None = ACCESS_WANTED,
) -> list[Row]:
    """Speed of the keyed operator as a share of another's.

    Args:
        backend: of the operator.
        other: what it is compared with, as the program calls it.
        against: the same for people.
        told: by the program.
        smoke: whether the run is too short to tell.
        wanted: the least share; None: nothing is asked.
    """
    rows = []
    for part in told.get("rows", []):
        share = middle(part["ratios"][other])
        us = part["us"]
        if share is None:
            continue
        rows.append(
            Row(
                f"{backend}, get and update, {part['keys']:,} keys",
                share,
                f"{share:.2f} of {against} ({us['operator']:.2f} and {us[other]:.2f} us)",
                "" if wanted is None else f">= {wanted}",
                None if smoke or wanted is None else share >= wanted,
            )
        )
    return rows


def pause_rows(told: dict[str, Any], smoke: bool) -> list[Row]:
    """How long the loop stands still."""
    if not told:
        return []
    p50, p99 = told["pause_ms"]["p50"], told["pause_ms"]["p99"]
    return [
        Row(
            f"heap, pause of a checkpoint, {told['keys']:,} keys, updates go on",
            p99,
            f"p50 {p50} ms, p99 {p99} ms",
            f"p99 < {PAUSE_P99_WANTED_MS:g} ms",
            None if smoke else p99 < PAUSE_P99_WANTED_MS,
        )
    ]


def checkpoint_rows(told: dict[str, Any], smoke: bool) -> list[Row]:
    """The whole state, and what one per cent of changes adds."""
    if "next" not in told:
        return []
    full, new = told["full"], told["next"]
    share = new["bytes_written"] / full["bytes_written"]
    return [
        Row(
            f"RocksDB, everything of {told['keys']:,} keys",
            full["write_s"],
            f"{mb(full['bytes_written'])}, pause {full['pause_s']:.2f} s, "
            f"{full['write_s']:.1f} s beside the loop",
        ),
        Row(
            "RocksDB, after 1 % changed",
            share,
            f"{mb(new['bytes_written'])}, {share:.1%} of everything; pause {new['pause_s']:.2f} s, "
            f"{new['write_s']:.2f} s beside the loop",
            f"<= {NEW_BYTES_WANTED:.0%}",
            None if smoke else share <= NEW_BYTES_WANTED,
        ),
    ]


def large_rows(told: dict[str, Any]) -> list[Row]:
    """Memory, and the speed of loading and of random updates."""
    if not told:
        return []
    keys, updates, seconds = told["keys"], told["updates"], told["seconds"]
    return [
        Row(
            f"peak of resident memory with {keys:,} keys",
            told["peak_mb"],
            f"{told['peak_mb']:,} MB",
            f"< {LIMIT_MB:,} MB",
            told["peak_mb"] < LIMIT_MB,
        ),
        Row("load", keys / seconds["load"], f"{keys / seconds['load']:,.0f} keys/s"),
        Row("random updates", updates / seconds["update"], f"{updates / seconds['update']:,.0f} keys/s"),
    ]


def restore_rows(what: str, told: dict[str, Any]) -> list[Row]:
    """The same range, and both halves; of these the slower one counts, as they are on different workers."""
    rows = []
    for parallelism in (1, 2):
        rounds = told.get("restore_s", {}).get(str(parallelism), [])
        seconds = middle([max(subtasks) for subtasks in rounds])
        if seconds is None:
            continue
        keys = told["keys"] / parallelism
        size = told["full"]["size"]
        how = "the same range" if parallelism == 1 else "1 subtask to 2, the slower one"
        rows.append(
            Row(
                f"restore, {what}, {how}",
                keys / seconds,
                f"{keys / seconds:,.0f} keys/s, {size / seconds / 1e6:,.0f} MB/s read, {seconds:.2f} s",
            )
        )
    return rows


def job_rows(pairs: Sequence[tuple[Run, Run | None]]) -> list[Row]:
    """A whole job, and Spark's own state store on the same data."""
    ours = [_rate(done, "events_per_s") for done, _ in pairs]
    theirs = [None if done is None else _rate(done, "steady_per_s") for _, done in pairs]
    rate = middle([found for found in ours if found is not None])
    if rate is None:
        return []
    rows = [Row("job, running count in RocksDB", rate, f"{rate:,.0f} records/s")]
    times = middle(ratios(ours, theirs))
    other = middle([found for found in theirs if found is not None])
    if times is not None and other is not None:
        shown = f"{times:.1f} times {other:,.0f} records/s behind its first micro-batch"
        rows.append(Row("the same against transformWithState", times, shown))
    return rows


def _rate(done: Run, name: str) -> float | None:
    found = done.result.get(name)
    return None if done.failure is not None or found is None else float(found)


def failures(parts: Iterable[Run]) -> list[str]:
    """What went wrong."""
    return [f"{done.name}: {done.failure}" for done in parts if done.failure is not None]


def mb(size: float) -> str:
    """Bytes in megabytes.

    Example:
        >>> mb(1_234_567), mb(567_000_000)
        ('1.2 MB', '567 MB')
    """
    return f"{size / 1e6:,.1f} MB" if size < 1e7 else f"{size / 1e6:,.0f} MB"
