"""Records that are followed on their way through a running job, and what `headgate trace` says of them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, json_lines, running_counts
from running_jobs import Valve, wait_until
from typer.testing import CliRunner

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.cli.main import app
from headgate.common.files.job_files import known_jobs
from headgate.testing import MiniCluster

KEYS = [f"key {n % 7}" for n in range(20_000)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of jobs of the test's own."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))


@hg.blocking
def upper(record: str) -> str:
    """Runs in a thread of its own."""
    return record.upper()


def twice(record: str) -> Iterator[str]:
    """Two records of one."""
    yield record
    yield record


@contextmanager
def traced(number: int, build: Any, **config: Any) -> Iterator[tuple[hg.RemoteJob, Valve, hg.JobHandle]]:
    """A running job of which the first tracing has begun before its first record."""
    options = {**TINY, "heartbeat.interval": "20ms", "rest.enabled": True, **config}
    valve = Valve(number, 0, list(KEYS), list(KEYS))
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=options)
    build(env.from_source(valve, uid="in"))
    with env.execute_async("traced") as handle:
        wait_until(known_jobs, "the job can be found")
        wait_until(lambda: handle.status().state == "running", "it runs")
        job = hg.connect("traced")
        job._ask("POST", "/v1/traces", {"every": 1, "seconds": 60})
        yield job, valve, handle


@contextmanager
def fed(valve: Valve) -> Iterator[None]:
    """Records come all the time."""
    over = threading.Event()

    def feed() -> None:
        limit = 0
        while not over.wait(0.01):
            valve.open_to(limit := limit + 5)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        over.set()
        feeder.join()


def ways(job: hg.RemoteJob) -> list[dict[str, Any]]:
    """The ways that were found until now."""
    return job._ask("GET", "/v1/traces")["ways"]


def names(way: dict[str, Any]) -> list[list[str]]:
    """The operators of a way, by visit."""
    return [[" → ".join(step["uids"]) for step in visit["steps"]] for visit in way["visits"]]


def whole(way: dict[str, Any]) -> bool:
    """Whether all that was sent has come."""
    return all(exchange["came"] for visit in way["visits"] for exchange in visit["sent"])


def test_a_record_is_seen_in_each_operator_and_exchange(tmp_path: Path) -> None:
    """Also in one whose calls are made in a thread, and where functions are fused; each of its numbers fits
    those before it.
    """

    def build(stream: Any) -> None:
        fused = stream.map(str.strip, uid="strip").flat_map(twice, uid="twice").rebalance()
        counted = fused.map(upper, uid="upper").key_by(lambda key: key).process(Count(), uid="count")
        counted.write_json(str(tmp_path / "out"), uid="out")

    with traced(9_960, build) as (job, valve, handle), fed(valve):
        wait_until(lambda: any(whole(way) and len(way["visits"]) >= 3 for way in ways(job)), "a whole way")
        way = next(way for way in ways(job) if whole(way) and len(way["visits"]) >= 3)
        source = way["visits"][0]
        assert names(way)[0] == ["in", "strip → twice"]
        assert [step["records"] for step in source["steps"]] == [1, 2]
        assert way["record"] in {repr(key) for key in KEYS}
        assert ["upper"] in names(way)
        assert names(way)[-1] == ["count", "out"]
        numbers = {visit["number"] for visit in way["visits"]}
        assert len(numbers) == len(way["visits"])
        for visit in way["visits"][1:]:
            assert visit["sender"] in numbers
            assert visit["came_ms"] >= 0
        last = way["visits"][-1]
        assert last["record"] == way["record"].upper()
        assert way["took_ms"] == pytest.approx(last["began_ms"] + last["took_ms"], abs=1.0)
        for visit in way["visits"]:
            assert 0 <= sum(step["own_ms"] for step in visit["steps"]) <= visit["took_ms"] + 0.01
        found = job._ask("GET", "/v1/traces")
        assert {" → ".join(each["uids"]) for each in found["operators"]} == {
            "in", "strip → twice", "upper", "count", "out"
        }  # fmt: skip
        assert len(found["exchanges"]) == 2
        handle.cancel()


def test_a_record_that_is_filtered_or_kept_ends_there(tmp_path: Path) -> None:
    """Its last visit says that nothing came out."""

    def build(stream: Any) -> None:
        stream.filter(lambda key: key == "key 3", uid="some").write_json(str(tmp_path / "out"), uid="out")

    with traced(9_961, build) as (job, valve, handle), fed(valve):
        wait_until(lambda: any(way["record"] != "'key 3'" for way in ways(job)), "one that is left out")
        left_out = next(way for way in ways(job) if way["record"] != "'key 3'")
        assert names(left_out) == [["in", "some"]]
        assert [step["records"] for step in left_out["visits"][0]["steps"]] == [1, 0]
        handle.cancel()


def test_rows_of_columns_are_followed(tmp_path: Path) -> None:
    """By their values, into the operators of tables."""
    config = {**TINY, "heartbeat.interval": "20ms", "rest.enabled": True}
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    valve = Valve(9_962, 0, [{"k": n % 7, "v": n} for n in range(50_000)])
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    table = env.from_source(valve, uid="in").to_table(schema)
    table.group_by("k").agg(F.count("*").alias("n")).write_changelog(str(tmp_path / "out"))
    with env.execute_async("columns") as handle:
        wait_until(lambda: handle.status().state == "running", "it runs")
        job = hg.connect("columns")
        job._ask("POST", "/v1/traces", {"every": 1, "seconds": 60})
        with fed(valve):
            wait_until(lambda: any(len(way["visits"]) == 2 for way in ways(job)), "a group has got one")
        way = next(way for way in ways(job) if len(way["visits"]) == 2)
        assert way["record"].startswith("{'k': ")
        assert "'n/count': 1" in way["visits"][1]["record"]
        assert not way["visits"][1]["sent"]
        handle.cancel()


@pytest.mark.parametrize("unaligned", [False, True])
def test_results_are_those_without_traces(tmp_path: Path, unaligned: bool) -> None:
    """With checkpoints, whose barriers may overtake traced records, and a failure on the way."""
    failed = tmp_path / "failed"

    def strike(record: str) -> str:
        if record == "key 5" and not failed.exists() and (tmp_path / "strikes").exists():
            failed.touch()
            raise ValueError("once")
        return record

    def build(stream: Any) -> None:
        counted = (
            stream.map(strike, uid="strike").rebalance().key_by(lambda key: key).process(Count(), uid="count")
        )
        counted.write_json(str(tmp_path / "out"), uid="out")
        stream._environment.checkpoints(every="20ms", storage=str(tmp_path / "cp"), unaligned=unaligned)

    with traced(9_963 + unaligned, build, **RESTART_AT_ONCE) as (job, valve, handle):
        with fed(valve):
            wait_until(lambda: len(ways(job)) > 3, "records are followed")
            wait_until(lambda: handle.status().checkpoints_completed > 1, "checkpoints")
        (tmp_path / "strikes").touch()
        valve.open_to()
        handle.result(60)
        assert failed.exists()
    got = sorted(tuple(each) for each in json_lines(tmp_path / "out"))
    assert got == running_counts([*KEYS, *KEYS])


def asked(*arguments: str) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_shows_the_slowest_and_all_times(tmp_path: Path) -> None:
    """One way in full, as a table with bars; for scripts the same as fields. What a record contains does no
    harm on a terminal.
    """

    def hostile(key: str) -> str:
        return f"\x1b[31m[red]{key}" + "x" * 5_000

    def build(stream: Any) -> None:
        counted = (
            stream.map(hostile, uid="[made]")
            .rebalance()
            .key_by(lambda key: key)
            .process(Count(), uid="count")
        )
        counted.write_json(str(tmp_path / "out"), uid="out")

    with traced(9_965, build) as (_, valve, handle), fed(valve):
        said = asked("trace", "traced", "--every", "1", "--seconds", "1", "--show", "1")
        lines = said.splitlines()
        assert re.fullmatch(r"\d+ records were traced, one in 1", lines[0])
        assert lines[2].startswith("the slowest: ")
        assert "on its way" in said
        assert "count " in said
        assert "[made]" in said
        assert "\x1b" not in said
        assert max(map(len, lines)) < 400
        found = json.loads(asked("trace", "traced", "--every", "1", "--seconds", "1", "--json"))
        assert found["ways"]
        assert max(len(visit["record"]) for way in found["ways"] for visit in way["visits"]) <= 200
        handle.cancel()


def test_a_tracing_without_records_says_what_to_do(tmp_path: Path) -> None:
    """A smaller share, or more time."""

    def build(stream: Any) -> None:
        stream.write_json(str(tmp_path / "out"), uid="out")

    with traced(9_966, build) as (_, _, handle):
        said = asked("trace", "traced", "--every", "5", "--seconds", "1")
        assert said.startswith("no record was traced: meanwhile no subtask of a source has read 5 records; ")
        found = json.loads(asked("trace", "traced", "--every", "5", "--seconds", "1", "--json"))
        assert (found["every"], found["runs"], found["ways"]) == (5, False, [])
        handle.cancel()
