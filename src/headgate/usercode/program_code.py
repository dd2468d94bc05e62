"""Opens and closes an isolated program's code: in the driver, a plan capture, or a process cluster's worker.

The complete program is in this process, its native packages as well: no records pass through the driver's
functions, so objects of two copies of a package do not meet. Packages with compiled parts are in a layer that
stays, as the next program with the same ones needs the same files, and no file can be loaded twice.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from headgate.common.ports import IsolatedCode
from headgate.common.process.search_path import framework_path
from headgate.common.settings.config import Config
from headgate.usercode.bundle.cache import Leased
from headgate.usercode.bundle.packing import hash_of
from headgate.usercode.bundle.program_artifacts import ProgramArtifacts, artifacts_of, artifacts_sent
from headgate.usercode.leaked_modules import LeakedModules
from headgate.usercode.loaders import release_namespace
from headgate.usercode.loading_errors import NoIsolationError, UserCodeLoadError
from headgate.usercode.namespaces import context
from headgate.usercode.namespaces.code import NamespaceCode
from headgate.usercode.namespaces.imports import install
from headgate.usercode.namespaces.loader import Namespace, NamespaceSettings
from headgate.usercode.namespaces.purging import StandardLibrary
from headgate.usercode.native.distributions import holds_packages, installed_in
from headgate.usercode.native.policy import plan
from headgate.usercode.program_process import ProcessCode, running_alone
from headgate.usercode.settings import UserCodeSettings

_log = logging.getLogger("headgate.usercode")
_OF_CACHE: Final = re.compile(r"/[0-9a-f]{64}(/|$)")
_LayerKey = tuple[tuple[tuple[str, str], ...], NamespaceSettings]
"""Folders with the hashes of what is in them, and how names are resolved."""
_programs: Final[weakref.WeakValueDictionary[int, ProgramCode]] = weakref.WeakValueDictionary()
"""Programs that run, by the identity of their namespace."""
_layers: Final[dict[_LayerKey, tuple[Namespace, list[Leased]]]] = {}
"""Layers of this process; they and their folders stay."""
_leaked: Final = LeakedModules()
"""Modules of ended programs that are still in this process."""


class ProgramCode(NamespaceCode):
    """An isolated program's code in a namespace; implements `common.ports.IsolatedCode`.
    `close` calls release hooks and lets go of folders; leftovers are reported when the next one opens.
    """

    def __init__(self, artifacts: ProgramArtifacts, namespace: Namespace, data_plane: Sequence[str]) -> None:
        super().__init__(namespace, data_plane)
        self._artifacts = artifacts
        self.main: ModuleType = namespace.modules["__main__"]
        self._library = StandardLibrary()
        _programs[id(namespace)] = self

    @property
    def paths(self) -> tuple[Path, ...]:
        return self._artifacts.paths

    def close(self) -> None:
        release_namespace(self.namespace, self._library)
        _leaked.closed(self.namespace)
        self._artifacts.release()


def running_code() -> IsolatedCode | None:
    """Return the isolated program's code that calls this, or that started the calling thread.

    None where the framework's own code calls it, or a plain program's.
    """
    namespace = context.current()
    return running_alone() if namespace is None else _programs.get(id(namespace))


def open_program(program: Path, config: Config) -> IsolatedCode:
    """Open the code of an isolated program: its own modules, and the packages that options name.

    It gets a namespace or, where the interpreter allows none, this process (UserCodeLoadError if that has run
    another program). UserCodeLoadError also if ended programs left too much. `config`: the command line's.
    """
    settings = UserCodeSettings.from_config(config)
    _refuse_if_full(program, settings)
    return _open(artifacts_of(program, config), settings)


def open_along(program: str, paths: Sequence[Path], config: Config) -> IsolatedCode:
    """Open the code of `program` in a worker, from `paths` that its process sent; or UserCodeLoadError."""
    return _open(artifacts_sent(program, paths), UserCodeSettings.from_config(config))


def _open(artifacts: ProgramArtifacts, settings: UserCodeSettings) -> IsolatedCode:
    try:
        try:
            install()
        except NoIsolationError as error:
            text = "%s; program %r has this process and Python workers of its own"
            _log.warning(text, error, str(artifacts.program))
            return ProcessCode(artifacts, _of_namespace(settings, _native(artifacts.folders, settings)[0]))
        return ProgramCode(artifacts, _opened(artifacts, settings), settings.data_plane)
    except BaseException:
        artifacts.release()
        raise


def _opened(artifacts: ProgramArtifacts, settings: UserCodeSettings) -> Namespace:
    identical, layered = _native(artifacts.folders, settings)
    of_namespace = _of_namespace(settings, identical)
    layer = _layer(layered, of_namespace, artifacts) if layered else None
    own = [folder for folder in artifacts.folders if folder not in layered]
    return Namespace(artifacts.program.name, own, of_namespace, layer)


def _of_namespace(settings: UserCodeSettings, identical: frozenset[str]) -> NamespaceSettings:
    return NamespaceSettings(settings.patterns, settings.resolve_order, identical, settings.check_leaked)


def _native(folders: Sequence[str], settings: UserCodeSettings) -> tuple[frozenset[str], tuple[str, ...]]:
    installed = installed_in(folders)
    if not any(one.is_native for one in installed.values()):
        return frozenset(), ()
    decided = plan(installed, installed_in(framework_path()), settings.native_modules, settings.data_plane)
    return decided.identical, tuple(one for one in folders if decided.packages_last and holds_packages(one))


def _layer(folders: tuple[str, ...], settings: NamespaceSettings, artifacts: ProgramArtifacts) -> Namespace:
    key = tuple((folder, _content_of(folder)) for folder in folders), settings
    if key not in _layers:
        namespace = Namespace("packages with compiled parts", folders, settings)
        _layers[key] = namespace, artifacts.keep(folders)
    return _layers[key][0]


def _content_of(folder: str) -> str:
    return "" if _OF_CACHE.search(folder) else hash_of(Path(folder))


def _refuse_if_full(program: Path, settings: UserCodeSettings) -> None:
    _leaked.release_s = settings.release_timeout_ms / 1000
    why = _leaked.exceeded(settings.bounds)
    if why is None:
        return
    if settings.fail_on_exhaustion:
        raise UserCodeLoadError(f"program {str(program)!r} is not loaded here: {why}; begin a new process")
    _log.error("%s", why)
