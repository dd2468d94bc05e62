"""Compiled packages of jobs on Spark: the framework's own, in a layer, and in workers of a job's own."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from user_tasks import program, told

from headgate.common.errors import UsageError
from headgate.common.settings.loader_options import NativeModules
from headgate.deploy.spark.user_code.opening_code import OpenedCode
from headgate.deploy.spark.user_code.orders import Limits, UserCodeOptions
from headgate.deploy.spark.user_code.running_jobs import UserCodeJobs

pytestmark = [pytest.mark.spark, pytest.mark.ci, pytest.mark.timeout(600)]

DATA_PLANE = ("numpy-2.1.3", "pandas-2.2.3", "pyarrow-20.0.0", "python_dateutil-4.0.0", "pytz-2026.6")
OWN = (*DATA_PLANE, "tzdata-2026.6", "six-1.16.0", "attrs-24.2.0")
MODELS = ("pydantic-2.9.2", "pydantic_core-2.23.4", "annotated_types-0.8.0", "typing_extensions-4.16.0")
OLD_MODELS = ("pydantic-1.10.13", "typing_extensions-4.16.0")
FRAMES = """
import json
import attr, numpy, pandas, pyarrow
def go():
    frame = pandas.DataFrame({"key": list("aba"), "value": numpy.arange(3.0)})
    sums = frame.groupby("key").value.sum().to_dict()
    rows = pyarrow.Table.from_pandas(frame).num_rows
    versions = attr.__version__, numpy.__version__, pandas.__version__, pyarrow.__version__
    return versions, json.dumps(sums), rows
"""
TREES = """
import pydantic
class Leaf(pydantic.BaseModel):
    n: int
def go():
    return pydantic.VERSION, Leaf(n="3").n
"""


def computing(code: OpenedCode, rows: Iterable[Any]) -> Iterator[Any]:
    """Process, daemon, what the job computes, and whether its NumPy and Arrow are Headgate's."""
    said = code.call(code.import_module("program").go)
    framework = importlib.import_module("numpy"), importlib.import_module("pyarrow")
    same = tuple(code.import_module(module.__name__) is module for module in framework)
    records = importlib.import_module("headgate.records.arrow_batch")
    yield os.getpid(), os.getppid(), said, same, records.pa.__version__


def modelling(code: OpenedCode, rows: Iterable[Any]) -> Iterator[Any]:
    """Process, what the job says, and its compiled module's identity."""
    said = code.call(code.import_module("program").go)
    yield os.getpid(), said, id(code.import_module("pydantic" if said[0] < "2" else "pydantic_core"))


def record_of(name: str, folder: Path) -> Path:
    """A copy of an installed package of which only its record is true: whoever loads it fails."""
    found = importlib.metadata.distribution(name)
    info = next(file for file in found.files or () if file.name == "RECORD").parent
    shutil.copytree(str(found.locate_file(info)), folder / info.name)
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("raise RuntimeError('the copy was loaded')")
    return folder


def test_scenario_22_other_numpy_means_other_workers(
    context: Any, jobs: UserCodeJobs, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """And the framework's own version means the framework's own modules; all in one application."""
    frames = program(tmp_path / "frames", FRAMES, json="raise RuntimeError")
    own = jobs.begin("own", [frames, *(wheels[name] for name in OWN)])
    plain = jobs.begin("plain", [frames, record_of("numpy", tmp_path / "copy"), wheels["attrs-21.4.0"]])
    assert own.environment is not None
    assert plain.environment is None
    first = told(context, jobs, plain, computing)[0]
    second = told(context, jobs, own, computing)[0]
    numpy, pandas, pyarrow = (importlib.metadata.version(name) for name in ("numpy", "pandas", "pyarrow"))
    assert first[2:] == (
        (("21.4.0", numpy, pandas, pyarrow), '{"a": 2.0, "b": 1.0}', 3),
        (True, True),
        pyarrow,
    )
    versions = ("24.2.0", "2.1.3", "2.2.3", "20.0.0")
    assert second[2:] == ((versions, '{"a": 2.0, "b": 1.0}', 3), (True, True), "20.0.0")
    assert first[0] != second[0]
    assert first[1] != second[1]
    again = jobs.begin("again", [program(tmp_path / "more", FRAMES), *(wheels[name] for name in OWN)])
    assert told(context, jobs, again, computing)[0][:2] == second[:2]
    assert told(context, jobs, plain, computing)[0][:2] == first[:2]


def test_scenario_25_environments_have_daemons_of_their_own_up_to_a_bound(
    context: Any, jobs: UserCodeJobs, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """Packages that need not leave may be sent there, too."""
    trees = program(tmp_path / "trees", TREES)
    options = UserCodeOptions(native=NativeModules.PROCESS, environments=2)
    new = jobs.begin("new", [trees, *(wheels[name] for name in MODELS)], options)
    here = jobs.begin("here", [program(tmp_path / "none", TREES.replace("import pydantic", "pydantic = 0"))])
    assert here.environment is None
    with pytest.raises(UsageError, match=r"job 'old' needs Python workers of its own for pydantic 1\.10\.13"):
        jobs.begin(
            "old",
            [trees, *(wheels[name] for name in OLD_MODELS)],
            dataclasses.replace(options, environments=1),
        )
    assert told(context, jobs, new, modelling)[0][1] == ("2.9.2", 3)


def test_scenario_21_compiled_packages_stay_in_a_layer(
    context: Any, jobs: UserCodeJobs, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """Jobs come and go over it; what has no room for a layer gets workers of its own."""
    packages = [wheels[name] for name in MODELS]
    options = UserCodeOptions(limits=Limits(layers=1))
    found = []
    for number in range(3):
        job = f"layered-{number}"
        code = jobs.begin(job, [program(tmp_path / job, TREES + f"NUMBER = {number}"), *packages], options)
        assert code.environment is None
        found += told(context, jobs, code, modelling)
        jobs.end(job)
    assert [said for _, said, _ in found] == [("2.9.2", 3)] * 3
    assert len({(pid, module) for pid, _, module in found}) == 1
    other = jobs.begin("other", [tmp_path / "layered-0", *(wheels[name] for name in OLD_MODELS)], options)
    assert other.environment is not None
    pid, said, _ = told(context, jobs, other, modelling)[0]
    assert said == ("1.10.13", 3)
    assert pid != found[0][0]
