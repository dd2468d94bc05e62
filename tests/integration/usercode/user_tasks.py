"""Tasks that open user code, and what they tell; imported by tests and, in local mode, by Spark's workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from headgate.deploy.spark.user_code.beginning_code import in_workers_of
from headgate.deploy.spark.user_code.opening_code import OpenedCode, task_function, this_process
from headgate.deploy.spark.user_code.orders import ShippedCode
from headgate.deploy.spark.user_code.running_jobs import UserCodeJobs


def program(folder: Path, text: str, **more: str) -> Path:
    """A folder with a module `program`, and others."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in {"program": text, **more}.items():
        (folder / f"{name}.py").write_text(source)
    return folder


def told(
    context: Any,
    jobs: UserCodeJobs,
    code: ShippedCode,
    body: Callable[[OpenedCode, Iterable[Any]], Iterable[Any]],
    tasks: int = 1,
    barrier: bool = False,
) -> list[Any]:
    """What `body` gives in a few tasks of one Spark job, or of one barrier stage, as a gang is."""
    numbers = context.parallelize(range(tasks), tasks)
    stage = numbers.barrier() if barrier else numbers
    rdd = stage.mapPartitions(task_function(code, jobs.live(), body))
    found: list[Any] = in_workers_of(rdd, code).collect()
    return found


def going(code: OpenedCode, rows: Iterable[Any]) -> Iterator[Any]:
    """The worker's process, what `program.go` gives, and the jobs whose namespaces are open."""
    module = code.import_module("program")
    yield os.getpid(), code.call(module.go), this_process().jobs
