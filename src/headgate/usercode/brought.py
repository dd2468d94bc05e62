"""A program's own code in the process that runs the program: the driver's, and that of a look at its plan.

Here all of it is in this process, native packages as well: no records pass through the driver's functions, so
objects of two copies of a package do not meet. Packages with compiled parts lie in a layer that stays, as the
next program that brings the same ones needs the same files, and no file can be loaded twice.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from headgate.common.config import Config
from headgate.common.ports import BroughtCode
from headgate.common.search_path import framework_path
from headgate.usercode.bundle.brought import Brought, brought_along, brought_by
from headgate.usercode.bundle.cache import Leased
from headgate.usercode.bundle.contents import hash_of
from headgate.usercode.errors import NoIsolationError, UserCodeLoadError
from headgate.usercode.leftovers import Leftovers
from headgate.usercode.loaders import let_go
from headgate.usercode.native.distributions import installed_in
from headgate.usercode.native.policy import Place, plan
from headgate.usercode.process_tier import ProcessCode, running_alone
from headgate.usercode.realm import context
from headgate.usercode.realm.code import RealmCode
from headgate.usercode.realm.loader import Realm, RealmSettings
from headgate.usercode.realm.process import install
from headgate.usercode.realm.purging import StandardLibrary
from headgate.usercode.settings import UserCodeSettings

_log = logging.getLogger("headgate.usercode")
_OF_CACHE: Final = re.compile(r"/[0-9a-f]{64}(/|$)")
_LayerKey = tuple[tuple[tuple[str, str], ...], RealmSettings]
"""Folders with the hashes of what is in them, and how names are resolved."""
_programs: Final[weakref.WeakValueDictionary[int, ProgramCode]] = weakref.WeakValueDictionary()
"""Those that run, by the identity of their realm."""
_layers: Final[dict[_LayerKey, tuple[Realm, list[Leased]]]] = {}
"""Of this process; they and their folders stay."""
_leftovers: Final = Leftovers()
"""What programs that have ended have left in this process."""


class ProgramCode(RealmCode):
    """Implements `common.ports.BroughtCode` with a realm.

    Args:
        brought: the program and what it brings.
        realm: where they are loaded.
        data_plane: packages whose objects must not leave the realm, where it has copies of its own.

    Attributes:
        realm: as given.
        main: the module that the program runs as.
    """

    def __init__(self, brought: Brought, realm: Realm, data_plane: Sequence[str]) -> None:
        super().__init__(realm, data_plane)
        self._brought = brought
        self.main: ModuleType = realm.modules["__main__"]
        self._library = StandardLibrary()
        _programs[id(realm)] = self

    @property
    def paths(self) -> tuple[Path, ...]:
        """See the protocol."""
        return self._brought.paths

    def close(self) -> None:
        """Run what the program has left for its end; it loads nothing any more.

        Who keeps it all the same is named when the next program begins.
        """
        let_go(self.realm, self._library)
        _leftovers.closed(self.realm)
        self._brought.release()


def running_code() -> BroughtCode | None:
    """That of the program whose code, or a thread that it has started, calls this; None for any other."""
    realm = context.current()
    return running_alone() if realm is None else _programs.get(id(realm))


def open_program(program: Path, config: Config) -> BroughtCode:
    """A program file's own modules, and what the options name, apart from everything else.

    They get a realm; where the interpreter allows none, they get this process, and say so.

    Args:
        program: the file.
        config: of the command line; what a program sets itself comes too late.

    Raises:
        UserCodeLoadError: something is not there, or cannot be used; or there are no realms, and this process
            has run another program.
    """
    settings = UserCodeSettings.from_config(config)
    _refuse_if_full(program, settings)
    return _open(brought_by(program, config), settings)


def open_along(program: str, paths: Sequence[Path], config: Config) -> BroughtCode:
    """The code of a program that runs in another process of this machine, for a worker of the job's own.

    Args:
        program: its name, for messages.
        paths: what the other process has brought; see `common.ports.BroughtCode`.
        config: of the job.

    Raises:
        UserCodeLoadError: something is no longer there, or cannot be used.
    """
    return _open(brought_along(program, paths), UserCodeSettings.from_config(config))


def _open(brought: Brought, settings: UserCodeSettings) -> BroughtCode:
    try:
        try:
            install()
        except NoIsolationError as error:
            said = "%s; program %r has this process and Python workers of its own"
            _log.warning(said, error, str(brought.program))
            return ProcessCode(brought, _of_realm(settings, _native(brought.folders, settings)[0]))
        return ProgramCode(brought, _opened(brought, settings), settings.data_plane)
    except BaseException:
        brought.release()
        raise


def _opened(brought: Brought, settings: UserCodeSettings) -> Realm:
    identical, layered = _native(brought.folders, settings)
    of_realm = _of_realm(settings, identical)
    layer = _layer(layered, of_realm, brought) if layered else None
    own = [folder for folder in brought.folders if folder not in layered]
    return Realm(brought.program.name, own, of_realm, layer)


def _of_realm(settings: UserCodeSettings, identical: frozenset[str]) -> RealmSettings:
    return RealmSettings(settings.patterns, settings.resolve_order, identical, settings.check_leaked)


def _native(folders: Sequence[str], settings: UserCodeSettings) -> tuple[frozenset[str], tuple[str, ...]]:
    """Top-level modules that are the framework's, and the folders that must stay."""
    found = {folder: installed_in([folder]) for folder in folders}
    brought: dict[str, Any] = {}
    for packages in found.values():
        brought = {**packages, **brought}  # of two the first on the path
    if not any(one.is_native for one in brought.values()):
        return frozenset(), ()
    decided = plan(brought, installed_in(framework_path()), settings.native_modules, settings.data_plane)
    holding = tuple(folder for folder, packages in found.items() if packages)
    own = any(one.place is not Place.PARENT for one in decided.placements)
    return decided.identical, holding if own else ()


def _layer(folders: tuple[str, ...], settings: RealmSettings, brought: Brought) -> Realm:
    """The layer of these folders as they are now; it takes their leases along."""
    key = tuple((folder, _content_of(folder)) for folder in folders), settings
    if key not in _layers:
        realm = Realm("packages with compiled parts", folders, settings)
        _layers[key] = realm, brought.keep(folders)
    return _layers[key][0]


def _content_of(folder: str) -> str:
    """The hash of what is in it; empty for a folder of the cache, which has it in its name."""
    return "" if _OF_CACHE.search(folder) else hash_of(Path(folder))


def _refuse_if_full(program: Path, settings: UserCodeSettings) -> None:
    """No further program where ended ones have left too much; a driver is not ended as a worker is."""
    _leftovers.release_s = settings.release_timeout_ms / 1000
    why = _leftovers.exceeded(settings.bounds)
    if why is None:
        return
    if settings.fail_on_exhaustion:
        raise UserCodeLoadError(f"program {str(program)!r} is not loaded here: {why}; begin a new process")
    _log.error("%s", why)
