"""The benchmark suite's own arithmetic: answers, ratios, slopes, and the watching of a process tree."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import data, report, stats
from bench.cache import made_once
from bench.measure import Run, Turns, run
from bench.plan import FULL, SMOKE, chosen
from bench.sections import engines, j2


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("HEADGATE_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def counted_one_by_one(auctions: list[int]) -> data.Answer:
    """The answer as the jobs find it: record by record."""
    counts: dict[int, int] = {}
    total = 0
    for auction in auctions:
        counts[auction] = counts.get(auction, 0) + 1
        total += counts[auction]
    return data.Answer(len(auctions), total, len(counts), max(counts.values(), default=0))


def test_the_batch_answer_is_what_counting_one_by_one_gives() -> None:
    """The sum of running counts follows from the final counts."""
    auctions = data.bids(5_000)["auction"]
    assert data.running_count_answer(auctions) == counted_one_by_one(auctions.to_pylist())


def test_bids_follow_from_the_seed() -> None:
    """The same seed makes the same bids, another seed makes others."""
    assert data.bids(500).equals(data.bids(500))
    assert not data.bids(500).equals(data.bids(500, seed=1))


def test_half_of_the_bids_go_to_the_hot_auction() -> None:
    """The distribution is skewed as the benchmark wants it: hot ids are multiples of 100."""
    auctions = data.bids(20_000)["auction"].to_pylist()
    assert 0.48 < sum(auction % 100 == 0 for auction in auctions) / len(auctions) < 0.54


def test_every_layout_holds_the_same_bids(cache: Path) -> None:
    """Two parts by turns, in Parquet and in JSON, and a sequence of files: one set of bids."""
    made = data.data_set(100, ("parquet_p2", "json_p2", "parquet_seq"))
    bids = data.bids(100)
    parts = [pq.read_table(made.layout("parquet_p2") / f"part-{part}.parquet") for part in (0, 1)]
    assert [part["auction"].to_pylist() for part in parts] == [
        bids["auction"].to_pylist()[part::2] for part in (0, 1)
    ]
    lines = (made.layout("json_p2") / "part-1.json").read_text().splitlines()
    assert [json.loads(line)["date_time"] for line in lines] == (
        bids["date_time"].cast(pa.int64()).to_pylist()[1::2]
    )
    files = sorted(made.layout("parquet_seq").iterdir())
    assert [url for file in files for url in pq.read_table(file)["url"].to_pylist()] == (
        bids["url"].to_pylist()
    )


def test_a_cached_folder_is_made_once_and_whole(tmp_path: Path) -> None:
    """What a failed attempt left is not taken for the folder."""
    made: list[Path] = []

    def fail(target: Path) -> None:
        (target / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        made_once(tmp_path / "set", fail)
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        made_once(tmp_path / "set", made.append)
    assert len(made) == 1


def test_a_ratio_of_a_failed_run_is_left_out() -> None:
    """Only pairs in which both runs count are compared."""
    assert stats.ratios([4.0, None, 8.0, 6.0], [2.0, 1.0, None, 3.0]) == [2.0, 2.0]


def test_the_slope_is_that_of_the_line_behind_the_warm_up() -> None:
    """Growth while warming up does not count; growth after it does, per minute."""
    series = [(float(second), 100.0 + (second if second < 10 else 10 + 0.5 * second)) for second in range(60)]
    assert stats.slope_per_minute(series, warm_up_s=10) == pytest.approx(30.0)
    assert stats.slope_per_minute(series[:5], warm_up_s=10) is None


def test_a_wrong_answer_is_a_failure(cache: Path) -> None:
    """A result counts only if it is the batch answer."""
    made = data.data_set(50, ("parquet_p2",))
    answer = {"records": 50, "total": made.answer.total, "highest": made.answer.highest}
    assert engines.difference({"answer": answer}, made) is None
    assert "batch" in str(engines.difference({"answer": {**answer, "total": 1}}, made))
    assert "killed" in str(engines.difference({"answer": answer, "failures": ["killed"]}, made))


def test_each_peer_is_compared_with_the_run_right_before_it() -> None:
    """The ratio to the best Python peer is, round by round, the smallest of theirs."""
    runs = [
        Run(name, result={"events_per_s": rate, "events": 1, "job_s": 1.0})
        for name, rate in [("headgate", 900), ("bytewax", 300), ("headgate", 1000), ("pathway", 200)]
    ]
    pairs = [(0, "bytewax", runs[0], runs[1]), (0, "pathway", runs[2], runs[3])]
    found = j2._ratios(pairs, chosen(smoke=True, rounds=1, events=None, peers=True))
    assert found == {"bytewax": [3.0], "pathway": [5.0], j2.BEST: [3.0]}


def test_a_program_is_watched_to_its_end() -> None:
    """Results, CPU time of the tree, and memory of the processes that were named come back."""
    program = (
        "import json, os, time; print('EVENT', json.dumps({'workers': [os.getpid()]}), flush=True); "
        "end = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\n"
        "time.sleep(1)\n"
        "print('RESULT', json.dumps({'answer': 42}))"
    )
    done = run("busy", [sys.executable, "-c", program], timeout_s=30, sample_s=0.02)
    assert (done.failure, done.result) == (None, {"answer": 42})
    assert done.cpu_s > 0.2
    assert [len(series) > 2 for series in done.memory.values()] == [True]


@pytest.mark.parametrize(
    ("program", "timeout_s", "reason"),
    [
        ("import sys; sys.exit('broken')", 30.0, "exit code 1, no result: broken"),
        ("pass", 30.0, "exit code 0, no result"),
        ("import time; time.sleep(60)", 0.3, "killed after 0.3 s, no result"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            30.0,
            "killed by another process or the system, perhaps for want of memory, no result",
        ),
    ],
)
def test_a_program_without_a_result_is_a_failure(program: str, timeout_s: float, reason: str) -> None:
    """One that fails, says nothing or takes too long does not count, and the record says why."""
    assert run("bad", [sys.executable, "-c", program], timeout_s, sample_s=0.05).failure == reason


def test_the_smoke_form_is_smaller_in_everything_that_takes_time() -> None:
    """No size of the smoke form exceeds that of the full form, and it installs nothing."""
    sizes = ["events", "rounds", "pairs", "memory_s", "blocked_s", "delay_s", "timeout_s"]
    assert [name for name in sizes if getattr(SMOKE, name) >= getattr(FULL, name)] == []
    assert not SMOKE.install


def test_a_record_replaces_the_one_before(tmp_path: Path) -> None:
    """The record is written after every section, whole each time."""
    path = tmp_path / "results" / "now.json"
    for count in (1, 2):
        report.write_record({"sections": count}, path)
    assert json.loads(path.read_text()) == {"sections": 2}
    assert list(path.parent.iterdir()) == [path]


def test_programs_in_turns_never_compute_at_once(tmp_path: Path) -> None:
    """Of two that spin, one stands still whenever both are there; each gets turns, and both end."""
    enough = tmp_path / "enough"
    spinning = (
        "import os, time; end = time.process_time() + 20\n"
        f"while time.process_time() < end and not os.path.exists({str(enough)!r}): pass\n"
    )
    command = [sys.executable, "-c", spinning + "print('RESULT {}')"]
    turns, states = Turns(turn_s=0.1), []

    def spinning_children() -> list[psutil.Process]:
        return [child for child in _children() if _is_ours(child, command)]

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run, name, command, 60, turns=turns) for name in "ab"]
        while not any(each.done() for each in runs):
            children = spinning_children()
            seen, again = (tuple(map(_stopped, children)) for _ in range(2))
            if seen == again:  # else a turn ended between two looks, and nothing is known
                states.append(seen)
            # However seldom a busy machine lets this process look.
            if len(states) > 100 and {(True, False), (False, True)} <= set(states):
                enough.touch()
    # From the first turn on. A busy machine may let both stand still for long; none lets both run.
    pairs = list(
        itertools.dropwhile(lambda pair: True not in pair, (each for each in states if len(each) == 2))
    )
    assert pairs.count((False, False)) < 0.1 * len(pairs)
    assert {(True, False), (False, True)} <= set(pairs)
    assert [each.result().failure for each in runs] == ["exit code 0, no result"] * 2


def _children() -> Iterator[psutil.Process]:
    """The processes that threads of this one have begun; psutil would look at all of the machine."""
    for file in Path("/proc/self/task").glob("*/children"):
        for pid in file.read_text().split():
            with contextlib.suppress(psutil.Error):
                yield psutil.Process(int(pid))


def _is_ours(process: psutil.Process, command: list[str]) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.cmdline() == command
    return False


def _stopped(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.status() == psutil.STATUS_STOPPED
    return False
