"""The heartbeat of a worker: asked at any moment, and never silently gone."""

from __future__ import annotations

import gc
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from operator_samples import context

from headgate.common.errors import OperatingError
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.connectors.collection import collection_source
from headgate.metrics.metric_table import TABLE, Place
from headgate.metrics.of_jobs import CPU, GARBAGE, RESIDENT_BYTES
from headgate.runtime.protocol.messages import HeartbeatSeen
from headgate.runtime.worker import worker_process
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.worker_process import WorkerSpec, _Process


class Idle:
    """A worker without subtasks."""

    attempt, progress = 1, 1

    def counters(self) -> list[Any]:
        return []

    def standstills(self, loop: int) -> list[Any]:
        return []

    def event_times(self) -> dict[str, int] | None:
        return {"sources": 5}


class Broken:
    """A worker whose totals cannot be read."""

    attempt, progress = 1, 1

    def counters(self) -> list[Any]:
        raise AttributeError("no totals")


def test_a_source_has_totals_before_it_has_a_reader() -> None:
    """The heartbeat's thread may look between assembly and opening of an attempt."""
    found = SourceOperator(context("numbers"), collection_source([1])).measured()
    assert set(found.values()) == {0}


def test_a_heartbeat_has_what_is_measured_of_the_worker() -> None:
    """Its memory, the time of processors, and that of the garbage collector."""
    assert [metric for metric in TABLE if metric.place is Place.WORKER] == [RESIDENT_BYTES, CPU, GARBAGE]
    spec = WorkerSpec("unix:@none#none", b"", "job", 1, 1, 1000, "127.0.0.1", 1 << 20)
    process = _Process(spec, 1, 0, lambda reason: None, SAME_INTERPRETER, threading.enumerate)
    process._worker = Idle()  # type: ignore[assignment]
    said: list[Any] = []
    process._link = SimpleNamespace(send=said.append)  # type: ignore[assignment]
    with process._collections.watching():
        gc.collect()
    process._send_heartbeat()
    assert said[0].rss_bytes > 1 << 20
    assert said[0].cpu_ms > 0
    assert said[0].gc_us > 0
    assert said[0].event_times == {"sources": 5}


def test_a_worker_s_process_gets_its_levels_of_loggers_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark uses a Python process for other jobs afterwards."""
    spec = WorkerSpec("unix:@none#none", b"", "job", 1, 1, 1000, "127.0.0.1", 1 << 20)
    process = _Process(spec, 1, 0, lambda reason: None, SAME_INTERPRETER, threading.enumerate)
    log, during = logging.getLogger("levels.of.a.worker"), []

    def connected(*_: object) -> None:
        process._received(HeartbeatSeen(0, log_levels={log.name: "debug"}))
        during.append(log.level)
        raise OperatingError("the job master is gone")

    monkeypatch.setattr(worker_process, "connect_control", connected)
    with pytest.raises(OperatingError, match="gone"):
        process.run()
    assert (during, log.level) == ([logging.DEBUG], logging.NOTSET)


def test_a_heartbeat_that_fails_ends_the_worker() -> None:
    """A worker without its side thread would not notice that it was replaced: it gives up instead."""
    spec = WorkerSpec("unix:@none#none", b"", "job", 1, 1, 1000, "127.0.0.1", 1 << 20)
    reasons: list[str] = []

    def abandon(reason: str) -> None:
        reasons.append(reason)
        process._over.set()

    process = _Process(spec, 1, 0, abandon, SAME_INTERPRETER, threading.enumerate)
    process._worker = Broken()  # type: ignore[assignment]
    process._link = SimpleNamespace(send=lambda message: None)  # type: ignore[assignment]
    process._beat()
    assert reasons == ["its heartbeat failed (AttributeError: no totals)"]
