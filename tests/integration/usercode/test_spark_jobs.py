"""Whole jobs with packages of their own in one Spark: barriers, state, restore, a killed worker."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headgate as hg
from headgate.common.errors import UsageError

pytestmark = [pytest.mark.spark, pytest.mark.ci, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
OWN = (
    *("numpy-2.1.3", "pandas-2.2.3", "pyarrow-20.0.0", "python_dateutil-4.0.0", "pytz-2026.6"),
    *("tzdata-2026.6", "six-1.16.0"),
)
PROGRAM = """
import os
import sys
import time
from pathlib import Path

import numpy

import headgate as hg


class Sums(hg.KeyedProcessFunction):
    total: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, number, context):
        self.total.value = int(numpy.add(self.total.value, number))
        yield {
            "key": context.key, "total": self.total.value, "numpy": numpy.__version__, "pid": os.getpid(),
            "file": numpy.__file__,
        }


folder, taken = Path(sys.argv[1]), 0
env = hg.Environment(parallelism=1)
env.checkpoints("100ms", storage=str(folder / "checkpoints"))
numbers = env.generate(int, rate_per_s=1_000.0, uid="numbers")
numbers.key_by(lambda n: n % 2).process(Sums(), uid="sums").write_json(str(folder / "out"), uid="out")
savepoints = sorted((folder / "savepoints").glob("*"), key=lambda path: path.stat().st_mtime)
job = env.execute_async(folder.name, restore_from=str(savepoints[-1]) if savepoints else None)
while taken < 400:
    time.sleep(0.05)
    taken = max((vertex.records_out for vertex in job.status().vertices), default=0)
job.stop(str(folder / "savepoints"))
"""


MANY = 300
MANY_MODULES = """
import importlib
import os
import sys
from pathlib import Path

import headgate as hg
from headgate.usercode.leaked_modules import resident_bytes
from headgate.deploy.spark.user_code.opening_code import this_process


class Look(hg.KeyedProcessFunction):
    seen: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, number, context):
        loaded = [importlib.import_module(f"many.part_{part}").NUMBER for part in range(MANY)]
        self.seen.value += len(loaded)
        left = this_process().leaked.modules
        yield {"loaded": self.seen.value, "pid": os.getpid(), "rss": resident_bytes(), "left": left}


folder = Path(sys.argv[1])
env = hg.Environment(parallelism=1)
env.checkpoints("100ms", storage=str(folder / "checkpoints"))
numbers = env.from_collection([1], uid="numbers")
numbers.key_by(lambda n: n).process(Look(), uid="look").write_json(str(folder / "out"), uid="out")
env.execute("many")
"""


def written(folder: Path) -> list[dict[str, Any]]:
    """What a job has committed, by key and in order."""
    files = (folder / "out").glob("part-*")
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    return sorted(rows, key=lambda row: (row["key"], row["total"]))


def check(folder: Path) -> list[dict[str, Any]]:
    """Every sum of every key exactly once; the records."""
    rows = written(folder)
    for key in (0, 1):
        totals = [row["total"] for row in rows if row["key"] == key]
        expected, total = [], 0
        for number in range(key, key + 2 * len(totals), 2):
            total += number
            expected.append(total)
        assert totals == expected
    return rows


def test_jobs_with_different_numpy_in_one_application(
    context: Any, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """Each computes with its own, in workers of its own, and goes on from its savepoint behind the other."""
    import numpy

    program = tmp_path / "code" / "job.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    own = ";".join(str(wheels[name]) for name in OWN)
    options = {"own": [f"headgate.user-code.path={own}"], "framework": ["classloader.native-modules=auto"]}
    for turn in (1, 2):
        for job in options:
            folder = tmp_path / job
            folder.mkdir(exist_ok=True)
            hg.run_program(program, [str(folder)], ["headgate.progress=off", *options[job]])
            assert len(written(folder)) >= 400 * turn
    found = {job: check(tmp_path / job) for job in options}
    assert {row["numpy"] for row in found["own"]} == {"2.1.3"}
    assert {row["numpy"] for row in found["framework"]} == {numpy.__version__}
    assert not {row["pid"] for row in found["own"]} & {row["pid"] for row in found["framework"]}
    assert numpy.__version__ != "2.1.3"


def test_the_example_of_two_versions(wheels: dict[str, Path]) -> None:
    """Two jobs take turns in the same Python worker, which is killed once; nothing is missing or double."""
    ended = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "two_versions" / "run.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "160"},
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "exactly once" in ended.stdout
    lines = [line.split("│") for line in ended.stdout.splitlines() if "attrs" in line]
    pids = [[cell.split("process ")[1].split(",")[0].split() for cell in line[2:4]] for line in lines]
    assert [line[2].split(",")[0].strip() for line in lines] == ["attrs 21.4.0"] * 3
    assert [line[3].split(",")[0].strip() for line in lines] == ["attrs 24.2.0"] * 3
    (old_1, new_1), (old_2, new_2), (old_3, new_3) = pids
    assert old_1 == new_1
    # They are in the order of their numbers, which begin again from the lowest now and then.
    assert sorted(old_2) == sorted([*old_1, "and", *new_2])
    assert new_2 == old_3 == new_3


@pytest.mark.parametrize("submissions", [pytest.param(100, marks=pytest.mark.proof), 5])
def test_scenario_18_submissions_of_a_job_leave_nothing(
    context: Any, tmp_path: Path, submissions: int
) -> None:
    """Of 300 modules, in one worker, with state and checkpoints; nor does anything stay on the driver."""
    program = tmp_path / "code" / "job.py"
    (program.parent / "many").mkdir(parents=True)
    program.write_text(MANY_MODULES.replace("MANY", str(MANY)))
    for name, text in {"__init__": "", **{f"part_{n}": f"NUMBER = {n}\n" for n in range(MANY)}}.items():
        (program.parent / "many" / f"{name}.py").write_text(text)
    rows = []
    for number in range(submissions):
        folder = tmp_path / str(number)
        folder.mkdir()
        hg.run_program(program, [str(folder)], ["headgate.progress=off"])
        (path,) = (folder / "out").glob("part-*")
        rows.append(json.loads(path.read_text()))
    assert {(row["loaded"], row["left"]) for row in rows} == {(MANY, 0)}
    assert len({row["pid"] for row in rows}) == 1
    grown = [row["rss"] - rows[min(10, submissions - 1)]["rss"] for row in rows]
    assert max(grown[submissions // 2 :]) < 10 << 20
    gc.collect()
    modules = [one for one in gc.get_objects() if isinstance(one, ModuleType)]
    assert [one for one in modules if one.__name__ == "many"] == []


@pytest.mark.parametrize("turns", [pytest.param(2, marks=pytest.mark.proof), 1])
def test_jobs_where_the_interpreter_allows_no_namespaces(
    wheels: dict[str, Path], tmp_path: Path, turns: int
) -> None:
    """They get a driver and workers of their own: their own NumPy there, barriers, state, and a restore."""
    program = tmp_path / "code" / "job.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    (program.parent / "json.py").write_text("raise RuntimeError('the standard library wins')")
    brought = [argument for name in OWN for argument in ("--with", str(wheels[name]))]
    command = [sys.executable, "-m", "headgate", "run", str(program), *brought, str(tmp_path)]
    for turn in range(1, turns + 1):
        variables = {**os.environ, "HEADGATE_NAMESPACES": "off"}
        ended = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
        assert ended.returncode == 0, ended.stderr
        assert "job.py' has this process and Python workers of its own" in ended.stderr
        assert len(written(tmp_path)) >= 400 * turn
    rows = check(tmp_path)
    assert {row["numpy"] for row in rows} == {"2.1.3"}
    assert len({row["pid"] for row in rows}) == turns


def test_another_order_of_jars_than_that_of_a_running_spark_is_refused(context: Any, tmp_path: Path) -> None:
    """It is fixed when Spark starts."""
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    with pytest.raises(UsageError, match="child-first, and Spark was started without"):
        hg.run_program(program, [str(tmp_path)], ["classloader.jvm.resolve-order=child-first"])
