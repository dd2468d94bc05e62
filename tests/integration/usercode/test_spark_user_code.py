"""Jobs that take turns in the same Python workers of one Spark application, each with its own packages."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from user_tasks import going, program, told

from headgate.deploy.spark.user_code.running_jobs import UserCodeJobs
from headgate.usercode.loading_errors import DifferentUserCodeError

pytestmark = pytest.mark.spark

ATTRS = """
import attr
TURNS = 0
def go():
    global TURNS
    TURNS += 1
    return attr.__version__, TURNS
"""


@pytest.mark.ci  # the wheels may have to be fetched
def test_scenario_25_jobs_take_turns_in_the_same_workers(
    context: Any, jobs: UserCodeJobs, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """Each sees its own attrs, and finds its own modules again in its next task."""
    own = program(tmp_path / "code", ATTRS)
    codes = {
        job: jobs.begin(job, [own, wheels[f"attrs-{version}"]])
        for job, version in (("a", "21.4.0"), ("b", "24.2.0"))
    }
    found = [told(context, jobs, codes[job], going)[0] for job in "abab"]
    assert [said for _, said, _ in found] == [("21.4.0", 1), ("24.2.0", 1), ("21.4.0", 2), ("24.2.0", 2)]
    assert len({pid for pid, _, _ in found}) == 1
    jobs.end("a")
    assert found[-1][2] == ("a", "b")
    assert told(context, jobs, codes["b"], going)[0][1:] == (("24.2.0", 3), ("b",))


def test_scenario_25_other_code_of_the_same_job_is_refused(
    context: Any, jobs: UserCodeJobs, tmp_path: Path
) -> None:
    """On the driver while the job runs, and by a worker that has its namespace; later it is welcome."""
    first = jobs.begin("c", [program(tmp_path / "one", "def go(): return 1")])
    assert told(context, jobs, first, going)[0][1] == 1
    changed = program(tmp_path / "two", "def go(): return 2")
    with pytest.raises(DifferentUserCodeError, match=r"job 'c' runs with user code .* begun again"):
        jobs.begin("c", [changed])
    with pytest.raises(Exception, match="DifferentUserCodeError: job 'c' references other user code"):
        told(context, jobs, dataclasses.replace(first, key="0" * 32), going)
    jobs.end("c")
    second = jobs.begin("c", [changed])
    assert told(context, jobs, second, going)[0][1:] == (2, ("c",))


def test_a_set_of_live_jobs_that_is_older_closes_nothing(
    context: Any, jobs: UserCodeJobs, tmp_path: Path
) -> None:
    """A task that was wrapped before another job began, and runs late."""
    own = program(tmp_path, ATTRS.replace("attr.__version__", "0").replace("import attr", ""))
    old = jobs.begin("d", [own])
    late = jobs.live()
    new = jobs.begin("e", [own])
    assert told(context, jobs, new, going)[0][1:] == ((0, 1), ("e",))
    jobs_then = type("Then", (), {"live": lambda self: late})()
    assert told(context, jobs_then, old, going)[0][2] == ("e", "d")
    assert told(context, jobs, new, going)[0][1] == (0, 2)


def test_names_of_the_standard_library_stay_its_own(context: Any, jobs: UserCodeJobs, tmp_path: Path) -> None:
    """Scenario 14: a user's `json.py` and `logging.py` do not win, nor do they stop anything."""
    text = "import json, logging\ndef go(): return json.dumps([1]), logging.getLogger('x').name"
    own = program(tmp_path, text, json="raise RuntimeError", logging="raise RuntimeError")
    assert told(context, jobs, jobs.begin("f", [own]), going)[0][1] == ("[1]", "x")


def test_files_are_given_to_spark_once(
    context: Any, jobs: UserCodeJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a name of their content, for all jobs that have them, and on nobody's import path."""
    added: list[str] = []
    add = context.addFile
    monkeypatch.setattr(context, "addFile", lambda path: (added.append(os.path.basename(path)), add(path)))
    own = program(tmp_path, "def go():\n import sys\n return [p for p in sys.path if 'headgate-user' in p]")
    first, second = jobs.begin("g", [own]), jobs.begin("h", [own])
    assert list(first.files) == list(second.files) == added
    assert first.key == second.key
    (path,) = told(context, jobs, first, going)[0][1]
    assert oct(Path(path).parent.stat().st_mode)[-3:] == "700"
    assert list(context._python_includes) == []


def test_the_worker_side_loads_nothing_that_a_job_may_bring() -> None:
    """Else the job's own could not take its place any more."""
    look = "import headgate.deploy.spark.user_code.opening_code, pyspark.worker, sys; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert {"numpy", "pandas", "pyarrow", "polars"}.isdisjoint(said.stdout.split())
