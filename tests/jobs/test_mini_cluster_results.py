"""Whole jobs in one process: the answer is that of a batch, whatever the parallelism and the buffers."""

from __future__ import annotations

import gzip
import heapq
import json
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import TINY, Count, environment, json_lines, running_counts

import headgate as hg
from examples import commits
from headgate.connectors.collection import collection_source
from headgate.connectors.files import json_source

WORDS = [f"w{n * n % 17}" for n in range(2_000)]
ODD = hg.OutputTag("odd")


@pytest.mark.parametrize("config", [{}, TINY], ids=["default", "tiny"])
@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_keyed_count_is_the_batch_answer(parallelism: int, config: dict[str, Any]) -> None:
    """Every key counts to its total, at any parallelism, also with one frame of credit."""
    env = environment(parallelism, config)
    stream = env.from_source(collection_source(WORDS, splits=8))
    result = stream.key_by(lambda word: word).process(Count(), uid="count").collect()
    assert sorted(result) == running_counts(WORDS)
    assert env.result is not None
    assert env.result.records_out == {"source-0": len(WORDS), "collect": len(WORDS)}


def test_union_keeps_every_record_of_every_input() -> None:
    """Also of one stream united with itself, and of inputs of different lengths."""
    env = environment(2, TINY)
    one, two = env.from_collection(range(300)), env.from_collection(range(1000, 1007))
    result = one.union(two, one.map(lambda n: -n)).collect()
    assert sorted(result) == sorted([*range(300), *range(1000, 1007), *(-n for n in range(300))])


def test_rebalance_reaches_every_subtask() -> None:
    """From one reader to all, each record once."""
    env = environment(4, TINY)
    numbers = env.from_source(collection_source(range(3000), splits=1)).set_parallelism(1)
    result = numbers.rebalance().process(WhoAmI()).collect()
    assert sorted(n for n, _ in result) == list(range(3000))
    assert {subtask for _, subtask in result} == {0, 1, 2, 3}


def test_broadcast_reaches_every_subtask_with_every_record() -> None:
    """Each subtask sees all, in the order of the sender."""
    env = environment(3)
    numbers = env.from_source(collection_source(range(100), splits=1)).set_parallelism(1)
    result = numbers.broadcast().process(WhoAmI()).collect()
    for subtask in range(3):
        assert [n for n, seen_by in result if seen_by == subtask] == list(range(100))


class WhoAmI(hg.ProcessFunction[int, tuple[int, int]]):
    """Says which subtask saw a record; odd ones go aside as well."""

    def open(self, context: hg.RuntimeContext) -> None:
        self.subtask = context.subtask

    def process(self, record: int, ctx: Any) -> Iterator[tuple[int, int]]:
        if record % 2:
            ctx.side_output(ODD, record)
        yield record, self.subtask


def test_side_outputs_and_two_sinks_of_one_stream(tmp_path: Path) -> None:
    """One pass feeds two sinks of the main output and one of the side output, each completely."""
    env = environment(2, TINY)
    main = env.from_collection(range(500)).process(WhoAmI())
    first, odd = main.collect_later(), main.side_output(ODD).collect_later()
    main.map(lambda pair: {"n": pair[0]}).write_json(str(tmp_path / "out"))
    env.execute("two sinks")
    assert sorted(n for n, _ in first.records) == list(range(500))
    assert sorted(odd.records) == list(range(1, 500, 2))
    assert sorted(line["n"] for line in json_lines(tmp_path / "out")) == list(range(500))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_an_empty_input_ends_with_an_empty_answer(parallelism: int) -> None:
    """No record, no timer, no output - and an end."""
    env = environment(parallelism)
    empty: list[dict[str, Any]] = []
    stream = env.from_collection(empty).with_event_time("t").key_by("k").process(Count(), uid="count")
    assert stream.collect() == []


def test_an_empty_file_ends_with_an_empty_answer(tmp_path: Path) -> None:
    """Files without lines are files."""
    (tmp_path / "a.jsonl").write_text("")
    assert environment(2).read_json(str(tmp_path / "a.jsonl")).collect() == []


@pytest.mark.parametrize("on_error", ["skip", "side-output"])
def test_bad_lines_are_counted_or_set_aside(tmp_path: Path, on_error: Any) -> None:
    """The good lines are all there; a bad one is counted, or told with its place."""
    lines = [json.dumps({"n": n}) if n % 100 != 7 else "{broken" for n in range(500)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    env = environment(2)
    stream = env.from_source(json_source(str(tmp_path / "in.jsonl"), on_error=on_error), uid="in")
    good = stream.map(lambda row: row["n"]).collect_later()
    if on_error == "skip":
        result = env.execute("bad lines")
        assert result.skipped == {"in": 5}
    else:
        bad = (
            stream.side_output(hg.OutputTag("bad-records"))
            .map(lambda record: record.position)
            .collect_later()
        )
        env.execute("bad lines")
        assert sorted(bad.records) == [8, 108, 208, 308, 408]
    assert sorted(good.records) == [n for n in range(500) if n % 100 != 7]


# -- event time over the example's real data

EVENTS = 5_000


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first commit events of the example, uncompressed."""
    path = tmp_path_factory.mktemp("commits") / "commits.jsonl"
    with gzip.open(commits.DATA, "rt") as data:
        path.write_text("".join(islice(data, EVENTS)))
    return path


def streaks(events: Sequence[dict[str, Any]]) -> list[str]:
    """What the example should write, by plain means: one loop, one heap."""
    out: list[Any] = []
    count: dict[str, int] = {}
    lines: dict[str, int] = {}
    quiet: dict[str, int] = {}
    timers: list[tuple[int, str]] = []

    def fire(watermark: float) -> None:
        while timers and timers[0][0] <= watermark:
            due, author = heapq.heappop(timers)
            if quiet[author] == due:
                out.append({"author": author, "quiet_since": due - commits.QUIET_MS})

    greatest = -float("inf")
    for event in events:
        fire(greatest - 7 * hg.DAYS - 1)
        author, due = event["author"], event["author_ms"] + commits.QUIET_MS
        count[author] = count.get(author, 0) + 1
        lines[author] = lines.get(author, 0) + event["insertions"]
        if due > quiet.get(author, -1):
            quiet[author] = due
            heapq.heappush(timers, (due, author))
        out.append({"author": author, "commits": count[author], "lines": lines[author]})
        greatest = max(greatest, event["author_ms"])
    fire(float("inf"))
    return sorted(json.dumps(line, sort_keys=True) for line in out)


@pytest.mark.ci
@pytest.mark.parametrize(("parallelism", "config"), [(1, {}), (2, TINY), (4, {})], ids=["1", "2 tiny", "4"])
def test_event_time_results_do_not_depend_on_the_parallelism(
    events: Path, tmp_path: Path, parallelism: int, config: dict[str, Any]
) -> None:
    """Running counts and quiet notes of real, out-of-order data equal a plain loop's, note by note."""
    env = environment(parallelism, config)
    commits.build(env, str(tmp_path / "out"), data=str(events))
    env.execute("commits")
    found = sorted(json.dumps(line, sort_keys=True) for line in json_lines(tmp_path / "out"))
    assert found == streaks([json.loads(line) for line in events.read_text().splitlines()])


# -- backpressure

LOCK = threading.Lock()
PROGRESS = {"read": 0, "written": 0, "ahead": 0}


def noted(record: int) -> int:
    """Count a record as read, and how far reading is ahead of writing."""
    with LOCK:
        PROGRESS["read"] += 1
        PROGRESS["ahead"] = max(PROGRESS["ahead"], PROGRESS["read"] - PROGRESS["written"])
    return record


class SlowShelf(hg.SinkWriter[Any]):
    """Sleeps for each record."""

    def write(self, records: Any) -> None:
        time.sleep(0.0004 * len(records))
        with LOCK:
            PROGRESS["written"] += len(records)

    def prepare_commit(self) -> list[Any]:
        return []


class SlowSink(hg.Sink[Any]):
    """A sink that cannot keep up."""

    def create_writer(self, context: Any, restored: Any) -> SlowShelf:
        return SlowShelf()


@pytest.mark.ci
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_slow_sink_stops_the_source_within_the_credit(parallelism: int) -> None:
    """What is read and not yet written is bounded by credit times frames, and nothing is dropped."""
    PROGRESS.update(read=0, written=0, ahead=0)
    total, batch, credit = 2_000, 20, 2
    env = environment(parallelism, {**TINY, "taskmanager.network.credit-initial": credit})
    source = collection_source(range(total), splits=total // batch)  # a split is the largest batch
    env.from_source(source).map(noted).rebalance().sink_to(SlowSink(), uid="slow").set_parallelism(1)
    env.execute("slow")
    assert PROGRESS["written"] == PROGRESS["read"] == total
    # Per channel: frames in flight, one that waits for credit, one that is gathered; and one being written.
    # A frame holds what was gathered in one flush timeout, which is at most a few of these small batches.
    assert PROGRESS["ahead"] < total / 3
