"""A running job is scraped as Prometheus does it: no metric is missing, and no counter goes back."""

from __future__ import annotations

import json
import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import TINY, ListEnumerator
from prometheus_client.parser import text_string_to_metric_families
from running_jobs import Valve, ValveReader, wait_until

import headgate as hg
from headgate.common.files.job_files import known_jobs
from headgate.metrics.metric_table import TABLE
from headgate.testing import MiniCluster

RECORDS, MIDDLE = 400, 300
Scraped = dict[str, float]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of jobs of the test's own."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))


class Stumbling(hg.KeyedProcessFunction[int, Any, int]):
    """Has timers of both kinds, and fails once, at the record in the middle."""

    def __init__(self, failed: Path) -> None:
        self._failed = failed

    def open(self, context: hg.RuntimeContext) -> None:
        self._even = context.metrics.counter("even")

    def process(self, record: Any, ctx: hg.KeyedContext[int]) -> Iterator[int]:
        ctx.timers.register_event_time(record["n"] + 2)
        ctx.timers.register_processing_time(ctx.timers.now_ms() + 1)
        if record["n"] % 2 == 0:
            self._even.inc()
        if record["n"] == MIDDLE and not self._failed.exists():
            self._failed.touch()
            raise ValueError("once")
        yield record["n"]

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        """Nothing."""


class Known(Valve):
    """A source that knows how much is left of its split."""

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return _KnownSplits(range(len(self.splits)) if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return _KnownReader(self)


class _KnownSplits(ListEnumerator):
    def left_to_assign(self) -> hg.InputLeft:
        return hg.InputLeft(records=len(self.left), bytes=len(self.left))


class _KnownReader(ValveReader):
    def left_to_read(self) -> dict[str, hg.InputLeft]:
        left = {name: len(self.source.splits[int(name)]) - at for name, at in self.splits}
        return {name: hg.InputLeft(rest, 10 * rest, 100 * rest) for name, rest in left.items()}


def scraped() -> tuple[set[str], Scraped]:
    """The names of all metrics, and the values of all series that are counters."""
    (known,) = known_jobs()
    request = urllib.request.Request(
        f"{known.file.address}/metrics", headers={"authorization": f"Bearer {known.file.secret}"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    series = {
        f"{sample.name}{json.dumps(sample.labels, sort_keys=True)}": sample.value
        for family in families
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }
    return {family.name for family in families}, series


def read(series: Scraped) -> float:
    """Records that the source has read."""
    return sum(value for name, value in series.items() if "records_in" in name and '"operator": "in"' in name)


def test_a_job_that_fails_once_is_scraped(tmp_path: Path) -> None:
    """In both attempts."""
    valve = Known(9_970, MIDDLE, [{"n": n} for n in range(RECORDS)])
    config = {**TINY, "heartbeat.interval": "10ms", "rest.enabled": True, "state.backend.type": "rocksdb"}
    config["state.backend.rocksdb.statistics"] = True
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=config)
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    timed = env.from_source(valve, uid="in").with_event_time("n", out_of_orderness="0ms")
    numbers = timed.key_by(lambda record: record["n"] % 5).process(Stumbling(tmp_path / "failed"), uid="five")
    numbers.rebalance().write_json(str(tmp_path / "out"), uid="out")
    expected = {metric.name.removesuffix("_total") for metric in TABLE} | {"headgate_user_even"}
    with env.execute_async("scraped") as handle:
        wait_until(known_jobs, "the job can be found")
        wait_until(lambda: scraped()[0] == expected, "there is everything that the table names")
        _, first = scraped()
        valve.open_to(MIDDLE + 1)
        wait_until(lambda: handle.status().restarts == 1, "it fails")
        valve.open_to(RECORDS - 1)
        wait_until(lambda: read(scraped()[1]) >= RECORDS - 1, "it reads on")
        _, second = scraped()
        valve.open_to()
        handle.result()
    assert {name: value for name, value in first.items() if second[name] < value} == {}
    (restarts,) = (value for name, value in second.items() if name.startswith("headgate_restarts_total"))
    (recoveries,) = (value for name, value in second.items() if "headgate_recovery_seconds_count" in name)
    assert (restarts, recoveries) == (1, 1)
    (even,) = (value for name, value in second.items() if name.startswith("headgate_user_even_total"))
    assert even >= RECORDS // 2 - 1


def test_a_port_of_its_own_needs_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It tells metrics, and nothing else; a page of another site gets nothing."""
    valve = Valve(9_971, 1, ["a", "b"])
    config = {**TINY, "metrics.prometheus.port": 0, "rest.enabled": True}
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=config)
    env.from_source(valve, uid="in").write_json(str(tmp_path / "out"), uid="out")
    caplog.set_level(logging.INFO, "headgate.endpoint")
    with env.execute_async("open") as handle:
        wait_until(lambda: "metrics are at" in caplog.text, "the port is told")
        address = caplog.text.split("metrics are at ")[1].split()[0]
        assert address.startswith("http://127.0.0.1:")
        assert answered(address)[0] == 200
        assert b'headgate_job_state{job_name="open"' in answered(address)[1]
        kind = answered(address, accept="application/openmetrics-text")[2]
        assert kind.startswith("application/openmetrics-text")
        for place in (address, known_address()):
            base = place.removesuffix("/metrics")
            assert answered(f"{base}/healthz")[:2] == (200, b"ok\n")
            wait_until(lambda at=base: answered(f"{at}/readyz")[0] == 200, "the job runs")  # type: ignore[misc]
            assert answered(f"{base}/readyz")[1] == b"running\n"
        assert answered(address.replace("/metrics", "/v1/job"))[0] == 404
        assert answered(address, origin="http://elsewhere.example")[0] == 403
        assert answered(address, host="rebound.example")[0] == 421
        valve.open_to()
        handle.result()


def known_address() -> str:
    """That of the endpoint, where health needs no secret either."""
    (known,) = known_jobs()
    return known.file.address


def test_a_job_that_cannot_run_is_not_ready(tmp_path: Path) -> None:
    """It is healthy all the same: its driver answers, and goes on trying."""

    def fails(record: Any) -> Any:
        raise ValueError(record)

    env = hg.Environment(parallelism=1, executor=MiniCluster(), config={**TINY, "rest.enabled": True})
    env.from_collection(["a"], uid="in").map(fails).write_json(str(tmp_path / "out"), uid="out")
    env.checkpoints(every="1s", storage=str(tmp_path / "checkpoints"))
    with env.execute_async("failing") as handle:
        wait_until(lambda: handle.status().restarts > 1, "it fails again and again")
        wait_until(lambda: answered(f"{known_address()}/readyz")[0] == 503, "it is not ready")
        assert answered(f"{known_address()}/healthz")[0] == 200
        handle.cancel()


def answered(address: str, **headers: str) -> tuple[int, bytes, str]:
    """Status, body and type of content of a request without the secret."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20) as answer:
            return answer.status, answer.read(), answer.headers["content-type"]
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers["content-type"]


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    """Before the job begins, by the names of the options."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = {**TINY, "metrics.prometheus.port": taken.getsockname()[1]}
        env = hg.Environment(parallelism=1, executor=MiniCluster(), config=config)
        env.from_collection(["a"]).write_json(str(tmp_path / "out"), uid="out")
        with pytest.raises(hg.ConfigError, match=r"as metrics\.prometheus\.bind-address and metrics\.prom"):
            env.execute("refused")


def test_the_endpoint_tells_metrics_to_who_knows_the_secret(tmp_path: Path) -> None:
    """To nobody else."""
    valve = Valve(9_972, 1, ["a", "b"])
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config={**TINY, "rest.enabled": True})
    env.from_source(valve, uid="in").write_json(str(tmp_path / "out"), uid="out")
    with env.execute_async("closed") as handle:
        wait_until(known_jobs, "the job can be found")
        (known,) = known_jobs()
        assert answered(f"{known.file.address}/metrics")[0] == 401
        assert "headgate_job_state" in scraped()[0]
        valve.open_to()
        handle.result()
