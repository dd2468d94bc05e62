"""Prepares a worker for jobs of equal packages: compiled ones replace the framework's before any is loaded.
They go between the standard library and the installed packages: a user's `json.py` must not win against
Python's, and the framework's NumPy must not win against the job's. `PYTHONPATH` would put them first, and
would run the user's `sitecustomize` in Spark's daemon. Only what clashes is linked into that folder, with
what it needs; pure packages stay in their namespaces here, too. Of pure packages that the linked ones need,
those that Spark's worker has loaded by then stay the framework's (`typing_extensions`, for instance): a
module is in a process once, and they serve both.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Set
from importlib.machinery import PathFinder
from pathlib import Path

from headgate.common.errors import InternalError
from headgate.deploy.spark.user_code.arriving import Arrived
from headgate.deploy.spark.user_code.orders import VARIABLE, ProcessEnvironment
from headgate.usercode.bundle.cache import ArtifactCache, Leased
from headgate.usercode.loading_errors import NativeModuleConflictError
from headgate.usercode.namespaces.loader import NamespaceSettings
from headgate.usercode.program_process import ProcessOrder, after_standard_library

_log = logging.getLogger("headgate.usercode")
_entered: dict[str, tuple[Leased | None, Arrived]] = {}
"""The environment of this process and what keeps its folders; never more than one."""


def enter(
    environment: ProcessEnvironment | None,
    arrived: Arrived,
    cache: ArtifactCache,
    settings: NamespaceSettings,
) -> bool:
    """Put `environment`'s packages (None: none) on this worker's path; return whether it keeps `arrived`.
    Raises NativeModuleConflictError if others come first or are loaded, InternalError in a wrong worker.
    """
    named = os.environ.get(VARIABLE)
    if named != (None if environment is None else environment.key):
        raise InternalError(f"a task for packages {environment} came to a worker for {named}")
    if environment is None or environment.key in _entered:
        return False
    loaded = environment.modules & sys.modules.keys()
    _refuse_loaded(environment, loaded)
    if environment.whole:
        if both := ProcessOrder(arrived.paths(), settings).put_in_place():
            _log.warning("of the job's modules these are the framework's, as it has loaded them: %s", both)
        _entered[environment.key] = (None, arrived)
        return True
    leased = cache.lease(environment.key, lambda folder: _link(environment, arrived, folder))
    try:
        _put_on_path(leased.folder, environment.modules - loaded)
    except BaseException:
        leased.release()
        raise
    _entered[environment.key] = (leased, arrived)
    return True


def _put_on_path(folder: Path, modules: Set[str]) -> None:
    sys.path.insert(after_standard_library(list(sys.path)), str(folder))
    importlib.invalidate_caches()
    try:
        for module in sorted(modules):
            spec = PathFinder.find_spec(module)
            places = [] if spec is None else [spec.origin or "", *(spec.submodule_search_locations or ())]
            if not any(place.startswith(str(folder)) for place in places):
                raise NativeModuleConflictError(
                    f"the job's {module} would not be used in a worker of the job's own: {places} come first "
                    "on the import path; remove them from PYTHONPATH and spark.executorEnv.PYTHONPATH"
                )
    except NativeModuleConflictError:
        sys.path.remove(str(folder))
        raise


def _refuse_loaded(environment: ProcessEnvironment, loaded: Set[str]) -> None:
    both = sorted(loaded & {module for one in environment.linked if one.compiled for module in one.modules})
    if both:
        raise NativeModuleConflictError(
            f"this Python worker has loaded the framework's {', '.join(both)} before the job's copy was in "
            "place, and no process can hold both; do not set spark.python.daemon.module or "
            "spark.python.worker.module to something that loads them"
        )


def _link(environment: ProcessEnvironment, arrived: Arrived, folder: Path) -> None:
    homes = {(artifact.digest, artifact.inside): place for artifact, place in arrived.places}
    for one in environment.linked:
        for entry in one.entries:
            link = folder / entry
            if not link.is_symlink():  # a folder that two distributions share
                link.symlink_to(homes[one.digest, one.inside] / entry)
