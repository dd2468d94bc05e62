"""Workers of Spark that live long: a hundred jobs one after the other, leaks, and memory that runs out."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_spark_own_workers import MODELS, TREES
from user_tasks import going, program, told

from headgate.deploy.spark.user_code.opening_code import OpenedCode, this_process
from headgate.deploy.spark.user_code.orders import Limits, UserCodeOptions
from headgate.deploy.spark.user_code.running_jobs import UserCodeJobs
from headgate.usercode.exhaustion import EXIT_CODE
from headgate.usercode.leaked_modules import resident_bytes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MODULES = 300
GROWTH_MAX = 10 << 20
ROOM = 64 << 20
GENERATED = """
import dataclasses, enum, functools, logging, typing, weakref
log = logging.getLogger(__name__)
class Color(enum.Enum):
    RED = 1
@dataclasses.dataclass
class Record:
    n: int
    tags: typing.List[str] = dataclasses.field(default_factory=list)
@typing.overload
def of(x: int) -> int: ...
@typing.overload
def of(x: str) -> str: ...
def of(x):
    return x
@functools.lru_cache
def cached(n):
    return Record(n)
def done():
    pass
weakref.finalize(typing, done)
table = {str(n): cached(n) for n in range(20)}
"""
LARGE = "data = bytearray(256 << 20)\ndef go(): return len(data)"


@pytest.fixture(scope="module")
def context(open_spark: Any) -> Any:
    """Of a local Spark with one slot, which tries a task again when its worker dies."""
    return open_spark("local[1,2]").sparkContext


def generated(folder: Path) -> Path:
    """A program of many modules."""
    names = [f"made_{number}" for number in range(MODULES)]
    text = "".join(f"import {name}\n" for name in names) + "def go(): return made_7.of(3)\n"
    return program(folder, text, **dict.fromkeys(names, GENERATED))


def measured(code: OpenedCode, rows: Iterable[Any]) -> Iterator[Any]:
    """The process, its memory, what closed namespaces have left, and whether the program works."""
    module = code.import_module("program")
    yield os.getpid(), resident_bytes(), this_process().leaked.modules, code.call(module.go)


def unpurged(log: Path) -> Any:
    """A task in a worker whose namespaces are not purged, and that writes its last words to a file."""

    def body(code: OpenedCode, rows: Iterable[Any]) -> Iterator[Any]:
        import headgate.usercode.loaders as loaders

        loaders.purge = lambda namespace, library: None  # type: ignore[assignment, return-value]
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        yield from measured(code, rows)

    return body


def cramped(first_only: bool, room: int = ROOM) -> Any:
    """A task that has little room for what it imports: always, or only the first time that it is tried."""

    def body(code: OpenedCode, rows: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        before = resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/statm", encoding="ascii") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        task = TaskContext.get()
        if task is None or task.attemptNumber() == 0 or not first_only:
            resource.setrlimit(resource.RLIMIT_AS, (size + room, before[1]))
        try:
            yield from going(code, rows)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    return body


@pytest.mark.parametrize(
    "submissions", [pytest.param(20, marks=pytest.mark.ci), pytest.param(100, marks=pytest.mark.proof)]
)
def test_scenario_18_a_hundred_jobs_leave_nothing_in_a_worker(
    context: Any, jobs: UserCodeJobs, tmp_path: Path, submissions: int
) -> None:
    """One application, one worker, three hundred modules each time."""
    own = generated(tmp_path)
    found = []
    for number in range(submissions):
        code = jobs.begin(f"job-{number}", [own])
        found += told(context, jobs, code, measured)
        jobs.end(code.job)
    assert len({pid for pid, _, _, _ in found}) == 1
    assert {(left, said) for _, _, left, said in found} == {(0, 3)}
    assert found[-1][1] - found[1][1] < GROWTH_MAX


@pytest.mark.ci
def test_scenario_18_without_purging_the_worker_ends_at_the_bound(
    context: Any, jobs: UserCodeJobs, tmp_path: Path
) -> None:
    """It says why; the task that it has ended before is tried again in another one."""
    own, log = generated(tmp_path), tmp_path / "stderr"
    found = []
    for number in range(6):
        code = jobs.begin(f"kept-{number}", [own])
        found += told(context, jobs, code, unpurged(log))
        jobs.end(code.job)
    pids = [pid for pid, _, _, _ in found]
    assert [pid == pids[0] for pid in pids] == [True, True, True, True, False, False]
    assert [left > 0 for _, _, left, _ in found] == [False, True, True, True, False, True]
    said = log.read_text()
    assert f"FATAL: this worker ends with exit code {EXIT_CODE}: 4 loaders of jobs that have ended" in said
    assert "classloader.max-leaked-loaders=3" in said


@pytest.mark.ci
def test_scenario_24_memory_that_runs_out_ends_the_worker_and_not_the_job(
    context: Any, jobs: UserCodeJobs, tmp_path: Path
) -> None:
    """Spark tries the task again in a fresh worker; the next job finds all in order."""
    code = jobs.begin("large", [program(tmp_path / "large", LARGE)])
    before = told(
        context, jobs, jobs.begin("small", [program(tmp_path / "small", "def go(): return 1")]), going
    )
    found = told(context, jobs, code, cramped(first_only=True))
    assert found[0][1] == 256 << 20
    assert found[0][0] != before[0][0]
    jobs.end("large")
    following = jobs.begin("following", [program(tmp_path / "next", "def go(): return 2")])
    assert told(context, jobs, following, going)[0][1:] == (2, ("following",))


@pytest.mark.ci
def test_scenario_24_a_library_that_has_no_room(
    context: Any, jobs: UserCodeJobs, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """What the dynamic linker says of it is understood, too."""
    before = told(
        context, jobs, jobs.begin("small", [program(tmp_path / "small", "def go(): return 1")]), going
    )
    code = jobs.begin("trees", [program(tmp_path / "trees", TREES), *(wheels[name] for name in MODELS)])
    found = told(context, jobs, code, cramped(first_only=True, room=3 << 20))
    assert found[0][1] == ("2.9.2", 3)
    assert found[0][0] != before[0][0]


@pytest.mark.ci
def test_scenario_24_memory_that_runs_out_may_fail_the_task_alone(
    context: Any, jobs: UserCodeJobs, tmp_path: Path
) -> None:
    """With `classloader.fail-on-metaspace-oom-error=false`."""
    options = UserCodeOptions(limits=Limits(fatal=False))
    code = jobs.begin("large", [program(tmp_path / "large", LARGE)], options)
    with pytest.raises(Exception, match=r"UserCodeLoadError: memory ran out while .*'large'"):
        told(context, jobs, code, cramped(first_only=False))
