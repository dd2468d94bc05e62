"""The function that Spark runs for a job with user code."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from headgate.common.process.search_path import framework_path
from headgate.deploy.spark.user_code.opening_code import OpenedAlone, OpenedCode, opened
from headgate.deploy.spark.user_code.orders import LiveJobs, ShippedCode

R = TypeVar("R")
T = TypeVar("T")

Body = Callable[[OpenedCode | OpenedAlone, Iterable[R]], Iterable[T]]
"""The framework's part of a task: called with the opened code and the rows of its partition."""


def task_function(
    code: ShippedCode, live: LiveJobs, body: Body[R, T]
) -> Callable[[Iterable[R]], Iterator[T]]:
    """A function for `mapPartitions` that opens a job's code and runs `body` with it.

    It travels by value and knows only plain values: the import path, and in a worker of the job's own its
    packages, are in place before anything else is imported.
    """
    import cloudpickle

    order, payload, paths = pickle.dumps((code, live)), cloudpickle.dumps(body), tuple(framework_path())

    def headgate_user_task(rows: Iterable[R]) -> Iterator[T]:
        import sys

        sys.path.extend(path for path in paths if path not in sys.path)
        from headgate.deploy.spark.user_code.tasks import run

        made: Iterator[T] = run(order, payload, rows)
        yield from made

    return headgate_user_task


def run(order: bytes, payload: bytes, rows: Iterable[R]) -> Iterator[T]:
    """In the worker: what the body gives, with the job's code opened as long as that takes."""
    # Both were written by the driver and handed over by Spark, which ships code the same way.
    code, live = pickle.loads(order)  # noqa: S301
    with opened(code, live) as user_code:
        body: Body[R, T] = pickle.loads(payload)  # noqa: S301
        yield from body(user_code, rows)
