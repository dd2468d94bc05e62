"""OpenLineage's events of real jobs, over HTTP and into a file; and servers that fail."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fails_once import SECRET, Counting, failed
from mini_jobs import TINY
from receiving import Receiver, receiver
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.testing import MiniCluster

PLACE = "/api/v1/lineage"


def config_of(**more: Any) -> dict[str, Any]:
    """Settings of a job that tells its lineage."""
    return {
        **TINY, "heartbeat.interval": "20ms", "headgate.openlineage.token": SECRET,
        "headgate.openlineage.interval": "100ms", **more,
    }  # fmt: skip


def environment(folder: Path, number: int, url: str, **more: Any) -> tuple[hg.Environment, Valve]:
    """A job that waits for its test, reads something that only its settings know, and writes JSON."""
    failed.clear()
    valve = Valve(number, 100, list(range(200)))
    config = config_of(**{"headgate.openlineage.url": url, **more})
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    env.checkpoints(every="100ms", storage=str(folder / "checkpoints"))
    counted = env.from_source(valve, uid="in").key_by(lambda n: n % 8).process(Counting(), uid="count")
    counted.write_json(str(folder / "out"), uid="out")
    return env, valve


def events_in(server: Receiver) -> list[dict[str, Any]]:
    """All events so far."""
    return [json.loads(body) for body in server.bodies(PLACE)]


def test_a_catalogue_is_told_the_run_and_its_datasets(tmp_path: Path) -> None:
    """One run over a restart, from START over RUNNING to COMPLETE, with the same datasets in each event."""
    with receiver() as server:
        named = {
            "headgate.openlineage.datasets": "in=kafka://ada:pw@broker:9092/orders, in=/data/old",
            "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "50ms",
            "headgate.openlineage.namespace": "shop", "headgate.openlineage.job-name": "daily orders",
        }  # fmt: skip
        env, valve = environment(tmp_path, 9_970, server.url, **named)
        with env.execute_async("told") as handle:
            wait_until(lambda: "RUNNING" in [e["eventType"] for e in events_in(server)], "it runs")
            valve.open_to()
            result = handle.result(timeout_s=60)
        events, headers = events_in(server), [each.headers for each in server.got]
    moments = [each["eventType"] for each in events]
    assert (moments[0], moments[-1], {*moments[1:-1]}) == ("START", "COMPLETE", {"RUNNING"})
    assert result.restarts == 1
    assert len({each["run"]["runId"] for each in events}) == 1
    assert {each["authorization"] for each in headers} == {f"Bearer {SECRET}"}
    assert SECRET not in json.dumps(events)
    for each in events:
        assert (each["job"]["namespace"], each["job"]["name"]) == ("shop", "daily orders")
        assert [(d["namespace"], d["name"]) for d in each["inputs"]] == [
            ("kafka://broker:9092", "orders"), ("file", "/data/old"),
        ]  # fmt: skip
        assert [(d["namespace"], d["name"]) for d in each["outputs"]] == [("file", str(tmp_path / "out"))]
        kind = each["job"]["facets"]["jobType"]
        assert (kind["processingType"], kind["integration"]) == ("BATCH", "HEADGATE")
        assert each["run"]["facets"]["processing_engine"]["name"] == "headgate"
    last = events[-1]["run"]["facets"]["headgate_checkpoint"]
    assert (last["jobId"], last["attempt"]) == (result.job_id, 2)
    assert last["checkpointId"] >= 2


def test_a_job_that_fails_and_one_that_is_cancelled(tmp_path: Path) -> None:
    """FAIL with the error, its secret masked, and where it was raised; ABORT."""
    with receiver() as server:
        env, valve = environment(tmp_path, 9_971, server.url, **{"restart-strategy.type": "none"})
        valve.open_to()
        with pytest.raises(hg.UserFunctionError):
            env.execute("told")
        env, _ = environment(tmp_path / "second", 9_972, server.url)
        with env.execute_async("other") as handle:
            wait_until(lambda: handle.status().checkpoints_completed > 0, "it runs")
            handle.cancel()
        events = events_in(server)
    (fail,) = [each for each in events if each["eventType"] == "FAIL"]
    error = fail["run"]["facets"]["errorMessage"]
    assert "no 150, ******" in error["message"]
    assert (error["programmingLanguage"], "in process" in error["stackTrace"]) == ("PYTHON", True)
    assert SECRET not in json.dumps(events)
    assert events[-1]["eventType"] == "ABORT"
    assert "errorMessage" not in events[-1]["run"]["facets"]
    assert len({each["run"]["runId"] for each in events}) == 2


def test_a_driver_that_leaves_its_job_to_the_next_one_tells_no_end(tmp_path: Path) -> None:
    """With high availability: the second driver goes on with the run, and tells its end."""
    led = {
        "high-availability.type": "filesystem", "high-availability.lease": "4s",
        "restart-strategy.type": "none",
    }  # fmt: skip
    with receiver() as server:
        env, valve = environment(tmp_path, 9_975, server.url, **led)
        valve.open_to()
        with pytest.raises(hg.UserFunctionError):
            env.execute("told")
        first = events_in(server)
        env, valve = environment(tmp_path, 9_976, server.url, **led)
        failed.append(150)
        valve.open_to()
        env.execute("told")
        events = events_in(server)
    assert {each["eventType"] for each in first} <= {"START", "RUNNING"}
    moments = [each["eventType"] for each in events]
    assert (moments.count("START"), moments[-1], moments.count("FAIL")) == (2, "COMPLETE", 0)
    assert len({each["run"]["runId"] for each in events}) == 1


def test_columns_and_a_transport_to_a_file(tmp_path: Path) -> None:
    """Of Parquet at both ends; by the file of OpenLineage's client."""
    schema = pa.schema([("order", pa.int64()), ("who", pa.string())])
    import pyarrow.parquet as pq

    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"order": [1, 2], "who": ["ada", "bob"]}, schema), tmp_path / "in" / "a.parquet")
    told, settings = tmp_path / "told.jsonl", tmp_path / "openlineage.yml"
    settings.write_text(f"transport:\n  type: file\n  log_file_path: {told}\n  append: true\n")
    config = config_of(**{"headgate.openlineage.config": str(settings)})
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=config)
    rows = env.read_parquet(str(tmp_path / "in"), uid="in")
    rows.write_parquet(str(tmp_path / "out"), schema=schema, uid="out")
    env.execute("copied")
    events = [json.loads(line) for line in told.read_text().splitlines()]
    assert [each["eventType"] for each in events] == ["START", "COMPLETE"]
    for each in events:
        for (end,), name in ((each["inputs"], "in"), (each["outputs"], "out")):
            assert (end["namespace"], end["name"]) == ("file", str(tmp_path / name))
            fields = [(field["name"], field["type"]) for field in end["facets"]["schema"]["fields"]]
            assert fields == [("order", "int64"), ("who", "string")]
        assert (each["job"]["namespace"], each["job"]["name"]) == ("headgate", "copied")


@pytest.mark.parametrize("kind", ["refuses", "stands still", "is not there", "answers 503"])
def test_a_server_that_fails_holds_no_job_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """The job ends as ever, with one warning, and without the client's own ones."""
    with receiver() as server:
        server.status = {"refuses": 400, "answers 503": 503}.get(kind, 200)
        server.sleep_s = 30 if kind == "stands still" else 0
        url = "http://127.0.0.1:9" if kind == "is not there" else server.url
        env, valve = environment(tmp_path, 9_973, url, **{"restart-strategy.type": "fixed-delay"})
        with env.execute_async("told") as handle:
            wait_until(lambda: handle.status().checkpoints_completed > 1, "checkpoints")
            if kind != "stands still":
                wait_until(lambda: "lineage for" in caplog.text, "it is warned of")
            began = time.monotonic()
            valve.open_to()
            handle.result(timeout_s=60)
        assert time.monotonic() - began < 15
        wait_until(lambda: "lineage for" in caplog.text, "it is warned of")
    outside = [each for each in caplog.records if each.name.startswith(("openlineage", "urllib3"))]
    assert [each.message for each in outside if each.levelno >= logging.WARNING] == []
    assert sum("lineage for" in each.message for each in caplog.records) == 1


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("headgate.openlineage.url", "server:5000", "expected a URL such as"),
        ("headgate.openlineage.config", "/nothing/there.yml", "are both set"),
        ("headgate.openlineage.datasets", "in", "expected uid=URI pairs"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path: Path, option: str, value: str, text: str) -> None:
    """Before anything starts, in a sentence."""
    env, _ = environment(tmp_path, 9_974, "http://127.0.0.1:9", **{option: value})
    with pytest.raises(hg.ConfigError, match=text):
        env.execute("told")


def test_a_file_of_the_client_must_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it is refused; so is a client that is not installed."""
    path = tmp_path / "openlineage.yml"
    for written, text in (
        (None, "No such file"),
        ("a: [", "it is no YAML"),
        ("a: 1", "no section 'transport'"),
    ):
        if written is not None:
            path.write_text(written)
        config = config_of(**{"headgate.openlineage.config": str(path)})
        env = hg.Environment(executor=MiniCluster(), config=config)
        env.from_collection([1]).write_json(str(tmp_path / "out"))
        with pytest.raises(hg.ConfigError, match=text):
            env.execute("told")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(hg.ConfigError, match=r"pip install 'headgate\[openlineage\]'"):
        env.execute("told")
