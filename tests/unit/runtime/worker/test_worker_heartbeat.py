"""The heartbeat of a worker: asked at any moment, and never silently gone."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from operator_samples import context

from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.connectors.collection import collection_source
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.worker_process import WorkerSpec, _Process


class Broken:
    """A worker whose totals cannot be read."""

    attempt, progress = 1, 1

    def counters(self) -> list[Any]:
        raise AttributeError("no totals")


def test_a_source_has_totals_before_it_has_a_reader() -> None:
    """The heartbeat's thread may look between assembly and opening of an attempt."""
    assert SourceOperator(context("numbers"), collection_source([1])).skipped == 0


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
