"""The sections on checkpoints: which checkpoints count, what is compared with what, and what is a failure."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import headgate as hg
from bench import report
from bench.__main__ import MEASURES
from bench.data import Answer, DataSet
from bench.jobs import barriers as job
from bench.jobs.checkpoint_cost import PROGRAMS
from bench.jobs.support import SummingSink
from bench.measure import Run
from bench.plan import FULL, SECTIONS, SMOKE
from bench.sections import barriers, checkpoint_cost
from headgate.common.settings.config import Config, validate
from headgate.core.checkpoint.history import CheckpointRecord, CheckpointStatus, SubtaskRecord, Topology

ALIGNED, TIMEOUT, UNALIGNED = barriers.MODES


def record(number: int, **changed: Any) -> CheckpointRecord:
    """A periodic checkpoint that completed, triggered at `number` seconds."""
    made = CheckpointRecord(
        number,
        1,
        "periodic",
        CheckpointStatus.COMPLETED,
        trigger_ms=number * 1000,
        topology=Topology((), ()),
        subtasks=(SubtaskRecord(0, 0, 5),),
    )
    return replace(made, **changed)


def ran(mode: barriers.Mode, durations_ms: list[int], **changed: Any) -> dict[str, Any]:
    """What the job says of a run in which everything went well and backpressure was full."""
    made = {
        "mode": mode.key,
        "verified": True,
        "answer": {"records": 7},
        "durations_ms": durations_ms,
        "bytes_in_flight": [2_000_000 if mode.overtakes else 0] * len(durations_ms),
        "overtook": [mode.overtakes] * len(durations_ms),
        "checkpoints_failed": [],
        "source_blocked": 0.97,
        "times_slower": 12.0,
        "waiting": 400_000,
        "failures": [],
    }
    return made | changed


# --- the job


def test_only_checkpoints_under_full_backpressure_count() -> None:
    """Not the final one, not one of the warm-up, not a failed one, and none after the source's end."""
    ended = (SubtaskRecord(0, 0, 5, finished=True), SubtaskRecord(1, 0, 5))
    records = [
        record(1),
        record(2),
        record(3, status=CheckpointStatus.FAILED),
        record(4),
        record(5, subtasks=ended),
        record(6, kind="final"),
    ]
    assert [kept.checkpoint for kept in job.counted(records, from_wall_ms=2_000)] == [2, 4]


def test_pressure_is_of_the_time_between_the_warm_up_and_the_sources_end() -> None:
    """Two source subtasks, blocked for 1.8 of 2 seconds each; before and after they were not."""
    samples = [
        job.Sample(0.5, sent=300, used=0, blocked_ms=0, source_busy_ms=2, slow_busy_ms=0),
        job.Sample(2.0, sent=600, used=100, blocked_ms=1_000, source_busy_ms=4, slow_busy_ms=1_000),
        job.Sample(4.0, sent=800, used=200, blocked_ms=4_600, source_busy_ms=8, slow_busy_ms=2_000),
        job.Sample(6.0, sent=1_000, used=900, blocked_ms=4_600, source_busy_ms=9, slow_busy_ms=9_000),
    ]
    found = job.pressure(samples, records=1_000, warm_up_s=1.0)
    # A record costs 8/800 ms at the source and 2000/200 ms at the slow end.
    assert found == {"source_blocked": 0.9, "times_slower": 1_000.0, "waiting": 600}


def test_pressure_of_too_few_samples_is_unknown() -> None:
    """One look at the counters says nothing about a share of time."""
    only = job.Sample(3.0, sent=10, used=1, blocked_ms=5, source_busy_ms=1, slow_busy_ms=1)
    assert set(job.pressure([only], records=20, warm_up_s=0.0).values()) == {None}


@pytest.mark.parametrize("records", [1, 999, 1_000, 2_345])
def test_the_expected_answer_is_that_of_counting_one_by_one(records: int) -> None:
    """Also where the keys do not all have the same number of records."""
    counts: dict[int, int] = {}
    total = 0
    for index in range(records):
        key = job.born(index)[0]
        counts[key] = counts.get(key, 0) + 1
        total += counts[key]
    assert job.expected(records) == {"records": records, "total": total}


def test_the_plan_has_the_vertices_that_the_listener_looks_at() -> None:
    """Two exchanges; the source stands first, and the sink is chained with the counting."""
    env = hg.Environment(parallelism=2)
    job.build(env, 10, SummingSink())
    plan = env.plan()
    assert [[node.uid for node in vertex.chain] for vertex in plan.vertices] == [
        ["numbers"],
        ["pass-on"],
        ["counts", "sink"],
    ]
    assert [(edge.source, edge.target) for edge in plan.edges] == [(0, 1), (1, 2)]
    assert (job.SOURCE, job.COUNTS) == (0, 2)


def test_the_options_of_every_mode_fit_together() -> None:
    """The job and the section name the same modes, and every mode's options are accepted."""
    assert [mode.key for mode in barriers.MODES] == list(job.MODES)
    for options in job.MODES.values():
        validate(Config().with_program(options))
    assert [bool(job.MODES[mode.key]) for mode in barriers.MODES] == [
        mode.overtakes for mode in barriers.MODES
    ]


# --- the section on barriers


def test_a_row_says_what_the_durations_come_to() -> None:
    """Percentiles are of the nearest rank, and sizes are medians."""
    durations = [*range(100, 199), 990]
    row = barriers.row(UNALIGNED, ran(UNALIGNED, durations), smoke=False)
    assert (row["checkpoints"], row["p50_ms"], row["p99_ms"], row["max_ms"]) == (100, 149, 198, 990)
    assert (row["in_flight_mb"], row["overtook"], row["met"]) == (2.0, 100, True)


@pytest.mark.parametrize(
    ("run", "smoke", "met"),
    [
        (ran(UNALIGNED, [999] * 30), False, True),
        (ran(UNALIGNED, [999] * 29 + [1_000]), False, False),
        (ran(UNALIGNED, [5] * 29), False, None),
        (ran(UNALIGNED, [5] * 30, source_blocked=0.89), False, None),
        (ran(UNALIGNED, [5] * 30, source_blocked=None), False, None),
        (ran(UNALIGNED, [5] * 30), True, None),
    ],
)
def test_nothing_is_concluded_from_too_little(run: dict[str, Any], smoke: bool, met: bool | None) -> None:
    """The wanted number is met, or missed, only by enough checkpoints under full backpressure."""
    row = barriers.row(UNALIGNED, run, smoke)
    assert (row["met"], row["conclusive"]) == (met, met is not None)


def test_a_mode_of_which_nothing_is_asked_is_neither_met_nor_missed() -> None:
    """An aligned checkpoint may take as long as it does."""
    row = barriers.row(ALIGNED, ran(ALIGNED, [6_000] * 3), smoke=False)
    assert (row["met"], row["conclusive"], row["in_flight_mb"]) == (None, True, 0.0)


def test_aligned_and_unaligned_are_compared_by_their_medians() -> None:
    """The comparison needs both."""
    rows = [
        barriers.row(mode, ran(mode, [ms]), smoke=True) for mode, ms in ((ALIGNED, 6_000), (UNALIGNED, 150))
    ]
    assert barriers.times_aligned(rows) == 40.0
    assert barriers.times_aligned(rows[:1]) is None
    assert barriers.times_aligned([rows[0], barriers.row(UNALIGNED, ran(UNALIGNED, []), smoke=True)]) is None


@pytest.mark.parametrize(
    ("mode", "changed", "said"),
    [
        (ALIGNED, {"verified": False}, "the answer is {'records': 7}"),
        (ALIGNED, {"failures": ["lost"]}, "an attempt failed: lost"),
        (ALIGNED, {"checkpoints_failed": ["checkpoint 3: expired"]}, "checkpoint 3: expired"),
        (ALIGNED, {"overtook": [False, True]}, "barriers overtook records, though they were to wait"),
        (TIMEOUT, {"overtook": [False, False]}, "no barrier overtook a record"),
        (UNALIGNED, {"durations_ms": []}, "no checkpoint was complete before the source had ended"),
    ],
)
def test_a_run_that_is_not_what_it_is_called_is_a_failure(
    mode: barriers.Mode, changed: dict[str, Any], said: str
) -> None:
    """A wrong answer, a failure, and barriers that did not do what the mode says."""
    assert barriers.wrong(mode, ran(mode, [5, 5]), smoke=False) == []
    assert barriers.wrong(mode, ran(mode, [5, 5]) | changed, smoke=False) == [f"{mode.key}: {said}"]


@pytest.mark.parametrize("durations_ms", [[], [5]])
def test_a_smoke_run_without_backpressure_is_no_failure(durations_ms: list[int]) -> None:
    """It lasts a few seconds, of which the source may have used one; a wrong answer fails it all the same."""
    run = ran(TIMEOUT, durations_ms) | {"overtook": [False] * len(durations_ms)}
    assert barriers.wrong(TIMEOUT, run, smoke=True) == []
    assert len(barriers.wrong(TIMEOUT, run | {"verified": False}, smoke=True)) == 1


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, Run], list[tuple[object, ...]]]:
    """Replaces the running of a section's job by a given run; gives the arguments that it was called with."""

    def with_run(section: Any, done: Run) -> list[tuple[object, ...]]:
        calls: list[tuple[object, ...]] = []

        def instead(module: str, plan: object, *arguments: object, **_: object) -> Run:
            calls.append((module, *arguments))
            return done

        monkeypatch.setattr(section, "job", instead)
        return calls

    return with_run


def test_the_section_runs_every_mode_and_shows_a_table(
    answered: Callable[[Any, Run], list[tuple[object, ...]]],
) -> None:
    """From the job's result to what people read."""
    runs = [ran(ALIGNED, [6_000] * 3), ran(TIMEOUT, [260] * 30), ran(UNALIGNED, [150] * 30)]
    calls = answered(barriers, Run("barriers", result={"runs": runs}))
    section = barriers.measure(FULL, lambda _: None)
    assert section["failed"] == []
    assert calls[0][:4] == ("barriers", "aligned", "aligned-100ms", "unaligned")
    assert section["records"] == int(FULL.barriers_s * 2 * 1e6 / FULL.barriers_sleep_us)
    text = shown({"barriers": section})
    assert "6,000" in text
    assert "an aligned one takes 40.0 times as long" in text
    assert [line for line in text.splitlines() if "unaligned " in line and "met" in line]


def test_a_section_whose_job_died_is_shown_as_failed(
    answered: Callable[[Any, Run], list[tuple[object, ...]]],
) -> None:
    """There is nothing to tabulate, and the reason stands below."""
    answered(barriers, Run("barriers", failure="exit code 1, no result"))
    text = shown({"barriers": barriers.measure(FULL, lambda _: None)})
    assert "failed barriers: barriers: exit code 1, no result" in text


def shown(sections: dict[str, Any]) -> str:
    """What the report prints."""
    page = io.StringIO()
    report.show({"sections": sections, "smoke": False}, Console(file=page, width=130))
    return page.getvalue()


# --- the section on cost


def cpu(program: str, mode: str, us: float, failures: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the job says of one run."""
    return {"program": program, "mode": mode, "workers_cpu_us": us, "failures": list(failures)}


def test_the_cost_is_the_median_of_the_rounds_ratios() -> None:
    """Each run is compared with the one of its own round; other programs and modes do not count."""
    runs = []
    for off, on in ((1.0, 1.1), (2.0, 2.04), (4.0, 4.2)):
        runs += [cpu("j2", "off", off), cpu("j2", "on", on), cpu("j2", "unaligned", 9.0)]
        runs += [cpu("stateless", "off", 7.0), cpu("stateless", "on", 9.0)]
    row = checkpoint_cost.row(checkpoint_cost.COSTS[2], runs, smoke=False)
    assert row["costs"] == pytest.approx([0.1, 0.02, 0.05])
    assert (row["cost"], row["least"], row["most"]) == pytest.approx((0.05, 0.02, 0.1))
    assert (row["cpu_us_off"], row["cpu_us_on"], row["wanted"]) == (2.0, 2.04, 0.15)


def test_a_round_with_a_failed_run_is_left_out_and_the_others_keep_their_partners() -> None:
    """The run after the failed one is not compared with an earlier round's."""
    runs = [
        cpu("j2", "off", 1.0, failures=("lost",)),
        cpu("j2", "on", 5.0),
        cpu("j2", "on", 2.2),
        cpu("j2", "off", 2.0),
    ]
    row = checkpoint_cost.row(checkpoint_cost.COSTS[2], runs, smoke=False)
    assert row["costs"] == pytest.approx([0.1])


def test_every_mode_of_a_program_runs_once_in_a_round_and_first_equally_often() -> None:
    """After the warm-up, nine rounds of six runs, whose beginnings rotate."""
    order = checkpoint_cost.jobs_in_order(warm_jobs=1, rounds=9)
    warm, rounds = order[:2], [order[at : at + 6] for at in range(2, len(order), 6)]
    assert warm == ["stateless:on", "j2:on"]
    assert len(rounds) == 9
    assert {tuple(sorted(names)) for names in rounds} == {tuple(sorted(rounds[0]))}
    first = [names[0] for names in rounds]
    assert {mode: first.count(f"stateless:{mode}") for mode in ("off", "on", "unaligned")} == dict.fromkeys(
        ("off", "on", "unaligned"), 3
    )


def test_the_stateless_answer_is_that_of_adding_up_every_price_and_fee(tmp_path: Path) -> None:
    """Over all files of the set."""
    folder = tmp_path / "parquet_p2"
    folder.mkdir()
    for part, prices in enumerate([[5, 100], [7]]):
        pq.write_table(pa.table({"price": prices, "auction": prices}), folder / f"part-{part}.parquet")
    found = checkpoint_cost.stateless(DataSet(tmp_path, Answer(3, 3, 3, 1))).answer
    assert (found.records, found.total, found.highest) == (3, 115, 101)


def test_a_wrong_answer_and_a_missing_one_are_failures(
    answered: Callable[[Any, Run], list[tuple[object, ...]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Runs of the warm-up are not compared; each program has an answer of its own."""
    monkeypatch.setenv("HEADGATE_BENCH_CACHE", str(tmp_path))
    plan = replace(SMOKE, events=50)
    data = checkpoint_cost.g.data_for(checkpoint_cost.g.HEADGATE, plan)
    answers = {"j2": data.answer, "stateless": checkpoint_cost.stateless(data).answer}
    runs = [
        cpu(*name.split(":"), 1.0)  # type: ignore[arg-type]
        | {
            "answer": {
                key: getattr(answers[name.split(":")[0]], key) for key in ("records", "total", "highest")
            }
        }
        for name in checkpoint_cost.jobs_in_order(plan.warm_jobs, plan.pairs)
    ]
    calls = answered(checkpoint_cost, Run("checkpoint_cost", result={"runs": runs}))
    section = checkpoint_cost.measure(plan, lambda _: None)
    assert section["failed"] == []
    assert [row["cost"] for row in section["rows"]] == [0.0] * 4
    assert calls[0][2:] == tuple(checkpoint_cost.jobs_in_order(plan.warm_jobs, plan.pairs))
    assert "stateless, unaligned" in shown({"checkpoint-cost": section})
    runs[3]["answer"]["total"] += 1
    assert [
        "a batch over the same bids says" in text
        for text in checkpoint_cost.measure(plan, lambda _: None)["failed"]
    ] == [True]


def test_every_program_of_the_cost_section_can_be_planned() -> None:
    """The section names the programs that the job has, and each has an exchange."""
    assert tuple(PROGRAMS) == checkpoint_cost._PROGRAMS
    for program in PROGRAMS.values():
        env = hg.Environment(parallelism=2)
        program(env.from_collection([1, 2])).sink_to(SummingSink(), uid="sink")
        assert len(env.plan().edges) == 1


# --- the whole


def test_every_section_can_be_measured() -> None:
    """The plan's names and the functions behind them are the same."""
    assert tuple(MEASURES) == SECTIONS


def test_the_smoke_form_of_barriers_is_shorter() -> None:
    """Less time, and less to queue before backpressure is full."""
    assert SMOKE.barriers_s < FULL.barriers_s / 10
    assert SMOKE.barriers_credit < FULL.barriers_credit
