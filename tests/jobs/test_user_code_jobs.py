"""Whole programs with code of their own: loaded apart, in turn and at once, restored by another version."""

from __future__ import annotations

import gc
import json
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.api.jobs.launch_settings import user_code
from headgate.api.jobs.plan_capture import capture
from headgate.common.errors import ConfigError, PlanError
from headgate.offline.upgrade import Verdict, check_upgrade
from headgate.usercode import program_code
from headgate.usercode.leaked_modules import LeakedModules
from headgate.usercode.loading_errors import UserCodeLoadError

PROGRAM = '''
"""Adds amounts up for each shop, with whatever `prices` and `msgspec` it brings."""
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import prices

import headgate as hg
from prices.money import Money


@dataclass
class Order:
    shop: int
    amount: "Money"


class Totals(hg.KeyedProcessFunction):
    total: hg.ValueState[Money] = hg.value_state()

    def open(self, ctx):
        import late

        self.late = late.WHOSE

    def process(self, order, ctx):
        before = self.total.value
        self.total.value = order.amount if before is None else before.plus(order.amount)
        yield {
            "shop": ctx.key, "total": self.total.value.shown(), "version": prices.VERSION,
            "msgspec": msgspec.WHOSE, "late": self.late,
            "found": type(order.amount) is sys.modules["prices.money"].Money,
        }


def make(env):
    folder = Path(__file__).parent
    env.checkpoints("20ms", storage=str(folder.parent / "checkpoints"))
    orders = env.generate(lambda n: Order(n % 2, Money(n)), count=COUNT, rate_per_s=RATE, uid="orders")
    totals = orders.key_by(lambda order: order.shop).process(Totals(), uid="totals")
    totals.write_json(str(folder.parent / "out"), uid="out")


def go():
    env = hg.Environment(parallelism=2, executor="mini-cluster")
    make(env)
    env.execute("totals")
'''
ALONE = "go()"
STOPPED = """
import time

env = hg.Environment(parallelism=2, executor="mini-cluster")
make(env)
job = env.execute_async("totals")
while not any(vertex.records_out for vertex in job.status().vertices):
    time.sleep(0.02)
print("savepoint", job.stop(str(Path(__file__).parent.parent / "savepoints")))
"""
IN_A_THREAD = """
import threading
import types

thread = threading.Thread(target=go)
thread.start()
thread.join()
"""
MONEY = {
    1: """
from dataclasses import dataclass

@dataclass
class Money:
    cents: int

    def plus(self, other):
        return Money(self.cents + other.cents)

    def shown(self):
        return self.cents
""",
    2: """
from dataclasses import dataclass

@dataclass
class Money:
    cents: int
    currency: str = "EUR"

    def plus(self, other):
        return Money(self.cents + other.cents, self.currency)

    def shown(self):
        return f"{self.cents} {self.currency}"
""",
}


def program(
    folder: Path, version: int = 1, count: int = 40, rate: float | None = None, end: str = ALONE
) -> Path:
    """A program's folder with `job.py`, and packages that it brings in `deps`."""
    code, deps = folder / f"code-{version}", folder / f"deps-{version}"
    for made in (code, deps / "prices", deps / "msgspec"):
        made.mkdir(parents=True, exist_ok=True)
    (code / "job.py").write_text(PROGRAM.replace("COUNT", repr(count)).replace("RATE", repr(rate)) + end)
    (code / "late.py").write_text("WHOSE = 'beside the program'\n")
    (deps / "prices" / "__init__.py").write_text(f"VERSION = {version}\n")
    (deps / "prices" / "money.py").write_text(MONEY[version])
    (deps / "msgspec" / "__init__.py").write_text(f"WHOSE = 'the job, {version}'\n")
    return code / "job.py"


def run(job: Path, *options: str, version: int = 1) -> None:
    """The program on the mini cluster, with what it brings."""
    deps = job.parent.parent / f"deps-{version}"
    hg.run_program(job, options=[f"headgate.user-code.path={deps}", *options])


def written(folder: Path) -> list[dict[str, Any]]:
    """What has been committed."""
    files = sorted((folder / "out").glob("part-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_program_brings_its_own_packages(tmp_path: Path) -> None:
    """Under names that the framework has, too; nothing of them is left among the framework's modules."""
    import msgspec

    run(program(tmp_path))
    rows = written(tmp_path)
    assert len(rows) == 40
    assert max(row["total"] for row in rows if row["shop"] == 0) == sum(range(0, 40, 2))
    assert {(row["version"], row["msgspec"], row["late"], row["found"]) for row in rows} == {
        (1, "the job, 1", "beside the program", True)
    }
    assert not hasattr(msgspec, "WHOSE")
    assert not {"prices", "prices.money", "late"} & sys.modules.keys()
    assert not [path for path in sys.path if str(tmp_path) in path]
    assert user_code() is None


def test_state_of_one_version_is_restored_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The class of the state is found in the namespace, in the version that the job brings now."""
    run(program(tmp_path, 1, 1_000, 300.0, STOPPED))
    savepoint = capsys.readouterr().out.split("savepoint ")[1].strip()
    first = written(tmp_path)
    assert 0 < len(first) < 1_000
    monkeypatch.setenv("HEADGATE_RESTORE_FROM", savepoint)
    run(program(tmp_path, 2, 1_000), version=2)
    rows = written(tmp_path)
    later = [row for row in rows if row["version"] == 2]
    assert len(rows) == 1_000
    assert len(first) + len(later) == 1_000
    assert f"{sum(range(0, 1_000, 2))} EUR" in {row["total"] for row in later}


def test_a_changed_program_is_checked_with_what_it_brings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The check of an upgrade finds both versions of the class; a plan is shown without anything started."""
    run(program(tmp_path, 1, 1_000, 300.0, STOPPED))
    savepoint = capsys.readouterr().out.split("savepoint ")[1].strip()
    told = [f"headgate.user-code.path={tmp_path / 'deps-2'}"]
    report = check_upgrade(savepoint, program(tmp_path, 2), options=told)
    (total,) = [item for op in report.operators for item in op.items if item.name == "total"]
    assert total.verdict is Verdict.AFTER_MIGRATION
    assert [vertex["name"] for vertex in capture(program(tmp_path, 2), options=told)["vertices"]]


def test_two_programs_at_the_same_time_keep_apart(tmp_path: Path) -> None:
    """Each in a thread of its own, each with its own version of both packages."""
    jobs = {version: program(tmp_path / str(version), version, 60, 200.0) for version in (1, 2)}
    threads = [
        threading.Thread(target=run, args=(job,), kwargs={"version": version})
        for version, job in jobs.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for version in jobs:
        rows = written(tmp_path / str(version))
        assert len(rows) == 60
        assert {row["msgspec"] for row in rows} == {f"the job, {version}"}


def test_jobs_of_threads_that_the_program_starts_are_its_own(tmp_path: Path) -> None:
    """They find its modules, and count as its jobs."""
    job = program(tmp_path, end=IN_A_THREAD)
    run(job)
    assert {row["msgspec"] for row in written(tmp_path)} == {"the job, 1"}


def test_what_is_wrong_is_said_before_anything_runs(tmp_path: Path) -> None:
    """A path that is not there, an option that is none; the namespace of a program that fails is closed."""
    job = program(tmp_path)
    with pytest.raises(UserCodeLoadError, match="neither a folder nor an archive"):
        run(job, f"headgate.user-code.path={tmp_path / 'none'}")
    with pytest.raises(ConfigError, match="classloader"):
        run(job, "classloader.resolve-order=sideways")
    with pytest.raises(ConfigError, match=r"native-modules \(.+\) comes too late .+ headgate run --with"):
        hg.Environment(config={"classloader.native-modules": "fail"}).execute()
    job.write_text("import prices")
    with pytest.raises(PlanError, match="ended without a job"):
        run(job)
    assert user_code() is None


def test_objects_of_its_own_data_plane_stay_in_a_program(tmp_path: Path) -> None:
    """A value of another pandas than the framework's reaches neither a sink nor another worker."""
    job = program(tmp_path)
    own = tmp_path / "deps-1" / "pandas"
    own.mkdir()
    (own / "__init__.py").write_text("class Frame: pass\n")
    job.write_text(
        """
import pandas
import headgate as hg
env = hg.Environment(parallelism=1, executor="mini-cluster")
env.config("restart-strategy.type", "none")
env.from_collection([1, 2]).map(lambda n: {"n": n, "made": WHAT}).collect_later()
env.execute("leaving")
""".replace("WHAT", "pandas.Frame()")
    )
    with pytest.raises(hg.UsageError, match=r"object of type pandas\.Frame was about to go out of"):
        run(job)
    job.write_text(job.read_text().replace("pandas.Frame()", "len(repr(pandas.Frame()))"))
    run(job)


def test_nothing_of_a_program_stays_behind_its_end(tmp_path: Path) -> None:
    """No module, class or function of it is in memory, whatever caches and registries saw of them."""
    for number in range(3):
        run(program(tmp_path / str(number)))
    gc.collect()
    left = [
        thing
        for thing in gc.get_objects()
        if isinstance(thing, types.ModuleType) and belongs(thing, tmp_path)
    ]
    assert left == []
    assert [
        kind for kind in gc.get_objects() if isinstance(kind, type) and kind.__module__ == "prices.money"
    ] == []


KEEPS_ITSELF = """
import headgate as hg
hg.KEPT = [*getattr(hg, "KEPT", []), lambda: hg]
def end():
    with open(__file__ + ".ended", "a") as file:
        file.write("once ")
def first(n):
    hg.register_release_hook("end", end)
    hg.register_release_hook("end", end)
    return n
env = hg.Environment(parallelism=2, executor="mini-cluster")
env.from_collection([1, 2, 3]).map(first).collect_later()
env.execute("keeping")
"""


@pytest.mark.timeout(300)  # who holds what is searched among all objects of a process full of tests
def test_what_programs_leave_on_the_driver_is_told_and_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who holds it; beyond the bound no further program is loaded here, as long as that is so."""
    job = tmp_path / "keeps.py"
    job.write_text(KEEPS_ITSELF)
    options = ["classloader.max-leaked-loaders=1", "classloader.release-timeout=0ms"]
    monkeypatch.setattr(program_code, "_leaked", LeakedModules())  # without those of other tests
    try:
        for _ in range(2):
            hg.run_program(job, options=options)
        assert "the user code of job 'keeps.py' was not released" in caplog.text
        assert "['KEPT']" in caplog.text
        with pytest.raises(UserCodeLoadError, match=r"keeps.py' is not loaded here: 2 loaders of jobs"):
            hg.run_program(job, options=options)
        hg.run_program(job, options=[*options, "classloader.fail-on-metaspace-oom-error=false"])
    finally:
        del hg.KEPT  # type: ignore[attr-defined]
    hg.run_program(job, options=options)
    del hg.KEPT  # type: ignore[attr-defined]
    assert (tmp_path / "keeps.py.ended").read_text() == "once " * 4


def test_a_folder_that_has_changed_is_loaded_anew(tmp_path: Path) -> None:
    """Also where it has compiled parts, whose layer stays in the process."""
    deps = tmp_path / "deps"
    info = deps / "natively-1.0.dist-info"
    info.mkdir(parents=True)
    (deps / "natively.so").write_bytes(b"")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: natively\nVersion: 1.0\n")
    (info / "RECORD").write_text("natively.so,,\nof_it.py,,\n")
    job = tmp_path / "job.py"
    job.write_text(
        """
from pathlib import Path
import of_it
import headgate as hg
env = hg.Environment(parallelism=1, executor="mini-cluster")
env.from_collection([1]).map(lambda n: n).collect_later()
env.execute("changed")
Path(__file__ + ".said").write_text(of_it.SAID)
"""
    )
    for said in ("one", "three"):  # of another length: compiled files tell versions by second and length
        (deps / "of_it.py").write_text(f"SAID = {said!r}\n")
        hg.run_program(job, options=[f"headgate.user-code.path={deps}"])
        assert (tmp_path / "job.py.said").read_text() == said


def belongs(module: types.ModuleType, folder: Path) -> bool:
    """Whether a module was loaded from below a folder."""
    return str(getattr(module, "__file__", "")).startswith(str(folder))
