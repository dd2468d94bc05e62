"""User code in a worker, as far as no Spark is needed: what is found on its path, and what it refuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_user_code_planning import package

from headgate.common.errors import InternalError
from headgate.deploy.spark.user_code import own_process
from headgate.deploy.spark.user_code.arriving import Arrived, cache_of_executor, check_framework
from headgate.deploy.spark.user_code.orders import VARIABLE, FrameworkPackage, Linked, ProcessEnvironment
from headgate.deploy.spark.user_code.own_process import after_standard_library, enter
from headgate.usercode.bundle.artifacts import Artifact
from headgate.usercode.bundle.cache import ArtifactCache
from headgate.usercode.loading_errors import NativeModuleConflictError, UserCodeLoadError
from headgate.usercode.namespaces.loader import NamespaceSettings
from headgate.usercode.native.distributions import installed_in

KEY = "ab" * 16
DIGEST = "cd" * 32


def environment(*modules: str, compiled: bool = True) -> ProcessEnvironment:
    """Packages of a job, each of one module, in one artifact."""
    linked = [Linked(name, "1", "c", DIGEST, "", (name,), (name,), compiled) for name in modules]
    return ProcessEnvironment(KEY, tuple(linked))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For packages of the key, and with an import path that is put back."""
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(own_process, "_entered", {})
    yield
    for leased, _ in own_process._entered.values():
        leased.release()


def arrived(folder: Path) -> Arrived:
    """An artifact in a folder."""
    return Arrived(((Artifact("job.zip", DIGEST), folder),), ())


@pytest.mark.usefixtures("worker")
def test_a_jobs_packages_come_before_the_frameworks_and_behind_the_standard_library(tmp_path: Path) -> None:
    """Only those that are linked, and once."""
    job, cache = tmp_path / "job", ArtifactCache(tmp_path / "cache")
    for name in ("only_linked", "json", "not_linked"):
        package(job, name, "1")
    assert enter(environment("only_linked"), arrived(job), cache, NamespaceSettings())
    assert not enter(environment("only_linked"), arrived(job), cache, NamespaceSettings())
    folder = tmp_path / "cache" / KEY
    assert sys.path.count(str(folder)) == 1
    assert sys.path.index(str(folder)) == after_standard_library(sys.path)
    assert [path.name for path in folder.iterdir()] == ["only_linked"]
    assert (folder / "only_linked" / "__init__.py").exists()


@pytest.mark.usefixtures("worker")
def test_a_compiled_module_that_is_loaded_already_is_refused(tmp_path: Path) -> None:
    """A pure one stays the framework's, for both."""
    job, cache = package(tmp_path / "job", "pytest", "1"), ArtifactCache(tmp_path / "cache")
    with pytest.raises(NativeModuleConflictError, match="has loaded the framework's pytest before"):
        enter(environment("pytest"), arrived(job), cache, NamespaceSettings())
    assert enter(environment("pytest", compiled=False), arrived(job), cache, NamespaceSettings())


@pytest.mark.usefixtures("worker")
def test_a_copy_that_comes_first_all_the_same_is_refused(tmp_path: Path) -> None:
    """PYTHONPATH stands before the standard library."""
    job, cache = package(tmp_path / "job", "mine", "1"), ArtifactCache(tmp_path / "cache")
    sys.path.insert(0, str(package(tmp_path / "first", "mine", "0")))
    with pytest.raises(NativeModuleConflictError, match=r"the job's mine would not be used .* PYTHONPATH"):
        enter(environment("mine"), arrived(job), cache, NamespaceSettings())


@pytest.mark.usefixtures("worker")
def test_a_worker_is_for_the_packages_that_its_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for no others, nor for none."""
    cache = ArtifactCache(tmp_path / "cache")
    with pytest.raises(InternalError, match="came to a worker for"):
        enter(None, arrived(tmp_path), cache, NamespaceSettings())
    monkeypatch.delenv(VARIABLE)
    assert not enter(None, arrived(tmp_path), cache, NamespaceSettings())
    with pytest.raises(InternalError, match="came to a worker for None"):
        enter(environment("mine"), arrived(tmp_path), cache, NamespaceSettings())


def test_a_worker_has_what_the_driver_has(tmp_path: Path) -> None:
    """Of what the job shares with the framework."""
    path = [str(package(tmp_path, "numpy", "2.4"))]
    here = installed_in(path)["numpy"]
    check_framework([FrameworkPackage("numpy", "2.4", here.contents)], path)
    with pytest.raises(UserCodeLoadError, match=r"numpy 2\.5, .* has 2\.4 of other contents"):
        check_framework([FrameworkPackage("numpy", "2.5", "other")], path)
    with pytest.raises(UserCodeLoadError, match="has none; give executors"):
        check_framework([FrameworkPackage("lxml", "5", "x")], path)


def test_the_cache_lies_below_the_executors_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is its owner's alone."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/one,{tmp_path}/two")
    cache_of_executor()
    (root,) = (tmp_path / "one").iterdir()
    assert root.stat().st_mode & 0o777 == 0o700
    assert str(os.getuid()) in root.name
    root.chmod(0o755)
    with pytest.raises(UserCodeLoadError, match="must be its owner's alone"):
        cache_of_executor()
