"""Driver and workers load the same copy of a module that two artifacts bring, whatever else they bring."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_user_code_planning import package

MODULE = "common_helpers"
ASKS = """
import functools, json, os, sys
from pathlib import Path

from pyspark import SparkFiles
from headgate.common.process.search_path import framework_path
from headgate.common.settings.config import Config
from headgate.deploy.spark.user_code.opening_code import OpenedCode, WorkerProcess
from headgate.deploy.spark.user_code.orders import VARIABLE, options_of
from headgate.deploy.spark.user_code.running_jobs import UserCodeJobs
from headgate.deploy.spark.user_code.planning import framework_packages
from headgate.usercode import explaining, program_code
from headgate.usercode.bundle.cache import ArtifactCache
from headgate.usercode.explaining import Entry, explain
from headgate.usercode.native.distributions import installed_in
from headgate.usercode.program_code import open_program
from headgate.usercode.settings import UserCodeSettings


class Context:
    applicationId = "app-1"

    def __init__(self, folder):
        folder.mkdir()
        self._temp_dir = str(folder)

    def addFile(self, path):
        pass


def copies(case, folders):
    context = Context(work / case)
    SparkFiles.get = lambda name: str(Path(context._temp_dir, "headgate-user-code", name))
    given = dict([setting.split("=")], **{"headgate.user-code.path": ";".join(folders)})
    config = Config().with_program(given)
    driver = open_program(work / "program" / "main.py", config)
    said = driver.call(driver.namespace.import_module, module).OF
    settings = UserCodeSettings.from_config(config)
    path = [Entry(Path(folder), folder) for folder in [str(work / "program"), *folders]]
    explained = explain([module], path, settings).modules[0].file
    jobs = UserCodeJobs(context)
    code = jobs.begin("job", driver.paths, options_of(settings))
    if code.environment is not None:
        os.environ[VARIABLE] = code.environment.key
    worker = OpenedCode(code, WorkerProcess(ArtifactCache(work / case / "cache")).lease(code, jobs.live()))
    return said, worker.import_module(module).OF, Path(explained).parent.name


known = functools.cache(installed_in)  # the framework's are looked up once for all cases
explaining.installed_in = program_code.installed_in = lambda path: known(tuple(path))
known(tuple(framework_path())), framework_packages()
work, module, setting, cases = Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
for case, folders in cases.items():
    if os.fork() == 0:  # a worker is for one set of packages in its life
        try:
            print(json.dumps([case, *copies(case, folders)]), flush=True)
        finally:
            os._exit(0)
    os.wait()
"""


def bring(work: Path) -> dict[str, Path]:
    """Artifacts that all have a module of one name; only some hold installed packages."""
    made = {
        "compiled": package(work / "compiled", "fastx", "1"),
        "other": package(work / "other", "a_fast", "1"),
        "pure": package(work / "pure", "attr", "24", compiled=False),
        "archive": work / "archive",
    }
    made["archive"].mkdir()
    for name, folder in made.items():
        (folder / f"{MODULE}.py").write_text(f"OF = {name!r}\n")
        for record in folder.glob("*.dist-info/RECORD"):
            record.write_text(f"{record.read_text()}{MODULE}.py,sha256={name},1\n")
    return made


@pytest.mark.parametrize(
    "setting",
    [
        "classloader.native-modules=process",
        "classloader.dependency-layer=never",
    ],
)
def test_driver_and_workers_load_the_same_copy(tmp_path: Path, setting: str) -> None:
    """And `explain` names it: the first as brought, but artifacts that hold packages are searched last.

    The third artifact has compiled parts and no such module: for it the driver has a layer.
    """
    made = bring(tmp_path)
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "main.py").touch()
    layered = str(package(tmp_path / "layered", "slowx", "1"))
    pairs = list(itertools.permutations(made, 2))
    cases = {f"{one}-{two}": [str(made[one]), str(made[two]), layered] for one, two in pairs}
    command = [sys.executable, "-c", ASKS, str(tmp_path), MODULE, setting, json.dumps(cases)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    wanted = [(f"{one}-{two}", "archive" if two == "archive" else one) for one, two in pairs]
    assert found == [[case, copy, copy, copy] for case, copy in wanted], ended.stderr
