"""An isolated namespace: a table of modules for one job, under their own names, next to the framework's.

Every module of a namespace has the namespace's own `builtins` in its globals, so an `import` statement of its
code means the namespace wherever and whenever it runs: late, in a thread, in a callback, in `exec`. What
looks into `sys.modules` or `sys.path` is shown the namespace's by `dispatch`.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, TypeVar

from headgate.common.process.search_path import framework_path
from headgate.common.settings.loader_options import ResolveOrder
from headgate.usercode.code_release import Hook
from headgate.usercode.loading_errors import ClosedUserCodeLoaderError
from headgate.usercode.namespaces import context
from headgate.usercode.namespaces.context import Modules, enter, leave, restore_containers
from headgate.usercode.namespaces.dispatch import framework_table
from headgate.usercode.namespaces.finding import NamespaceFinder
from headgate.usercode.namespaces.imports import import_of_namespace, install
from headgate.usercode.namespaces.interpreter import callers
from headgate.usercode.namespaces.places import Lookup
from headgate.usercode.resolution import Origin, ParentFirst, parent_first

if TYPE_CHECKING:
    from _typeshed.importlib import MetaPathFinderProtocol as MetaPathFinder

P = ParamSpec("P")
R = TypeVar("R")
AtExit = tuple[Callable[..., Any], Hook]
"""What was registered with a namespace's `atexit`: a function, and its call with the arguments given then."""

TOKEN: Final = "__headgate_token__"  # noqa: S105 - the name of a global
"""Name of a global in each module of a namespace; while its value lives, so do the module's globals."""


_LIBRARY: Final = Path(importlib.util.__file__).parents[1]
STANDARD_PLACES: Final = frozenset(
    str(place)
    for place in (
        _LIBRARY,
        _LIBRARY / "lib-dynload",
        _LIBRARY.parent / f"python{sys.version_info.major}{sys.version_info.minor}.zip",
    )
)
"""Where Python's own modules lie; `site-packages`, which lies below, is none of them."""


@dataclass(frozen=True, slots=True)
class NamespaceSettings:
    """How an isolated namespace decides whose copy a module name means, and whether it refuses late use."""

    patterns: ParentFirst = field(default_factory=parent_first)
    order: ResolveOrder = ResolveOrder.CHILD_FIRST
    identical: frozenset[str] = frozenset()  # top-level modules of native packages that are the framework's
    check_leaked: bool = True  # whether code that asks for a module after the end is refused


class ClosedNamespace:
    """Stands in for a closed isolated namespace (see `context.View`) that was made with `check_leaked`.
    Late code of the job, as in a thread that lives on, meets it in the place of its namespace. Every use but
    `closed` and `handle` raises ClosedUserCodeLoaderError, which names the job, the thread and the line.
    """

    closed = True
    handle = None

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def release_hooks(self) -> NoReturn:
        self.refuse("a release hook")

    @property
    def threads(self) -> NoReturn:
        self.refuse("a thread")

    @property
    def path(self) -> NoReturn:
        self.refuse("sys.path")

    @property
    def meta_path(self) -> NoReturn:
        self.refuse("sys.meta_path")

    def store(self, name: Hashable, module: types.ModuleType | None = None) -> NoReturn:
        self.refuse(f"module {name!r}")

    home = forget = store

    def view(self) -> NoReturn:
        self.refuse("sys.modules")

    clear = view

    def refuse(self, what: str) -> NoReturn:
        """Raise ClosedUserCodeLoaderError, with the thread and line of user code that asked for `what`."""
        thread, place = threading.current_thread().name, _place_of_user_code()
        raise ClosedUserCodeLoaderError(
            f"{what} was asked for through the user code of job {self.name!r}, which is used after the job "
            f"has terminated, in thread {thread!r} at {place}; look for a lingering thread or a static "
            "registry that holds it, or switch the check off with classloader.check-leaked-classloader=false"
        )


def _place_of_user_code() -> str:
    of_user = (frame for frame in callers(sys._getframe(1)) if context.MARK in frame.f_builtins)
    return next((f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in of_user), "an unknown place")


class Token:
    """A global of each module of a namespace: a weak reference to it shows whether these globals live on."""

    __slots__ = ("__weakref__", "name")

    def __init__(self, name: str) -> None:
        self.name = name


class Namespace:
    """The isolated modules of one job or program, or of a dependency layer that jobs share, in this process.
    `name` is for messages. `paths` are the folders that the user brings, searched in that order. `layer` is
    the namespace of shared packages below this one; None: there is none. The first namespace prepares the
    process; NoIsolationError if its interpreter allows none. Whoever opens one must :meth:`close` it.
    """

    def __init__(
        self,
        name: str,
        paths: Sequence[str],
        settings: NamespaceSettings | None = None,
        layer: Namespace | None = None,
    ) -> None:
        install()
        self.name, self.layer = name, layer
        self.settings = NamespaceSettings() if settings is None else settings
        self.artifacts = frozenset(paths)
        self.modules: Modules = {}
        self.foreign: Modules = {}
        self._homes: dict[Hashable, Modules | None] = {}
        self.handle = context.Handle(self)  # what contexts hold
        self.path = _searched(paths, framework_path())
        self.meta_path: list[MetaPathFinder] = [NamespaceFinder(self, self.settings.patterns)]
        self.lookup: Lookup = Lookup(
            self.settings.patterns,
            self.settings.order,
            self.settings.identical,
            self.modules,
            self._path_of_user,
            None if layer is None else layer.lookup,
        )
        self.places, self.decide = self.lookup.places, self.lookup.decide
        self.threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self.classes: weakref.WeakSet[type] = weakref.WeakSet()
        self.at_exit: list[AtExit] = []
        self.release_hooks: dict[str, Hook] = {}
        self.tokens: dict[str, weakref.ref[Token]] = {}
        self.builtins = self._builtins()
        self._special_modules()
        self.closed = False
        context.opened(self.handle)

    def __repr__(self) -> str:
        return f"<Namespace {self.name!r}{' closed' if self.closed else ''}>"

    def home(self, name: Hashable) -> Modules | None:
        try:
            return self._homes[name]
        except KeyError:
            home = self._homes[name] = self._home(name)
            return home

    def _home(self, name: Hashable) -> Modules | None:
        if not isinstance(name, str):
            return None  # nothing is imported by it
        if name in self.modules:
            return self.modules
        origin = self.decide(name).origin
        if origin is Origin.PARENT:
            return None
        if origin is Origin.LAYER and self.layer is not None:
            return self.layer.modules
        return self.modules

    def store(self, name: str, module: types.ModuleType) -> None:
        home = self.home(name)
        if home is not None and home is not self.modules:
            assert self.layer is not None
            self.layer.store(name, module)
            return
        if _is_of_user(module):
            self._adopt(name, module)
        self.modules[name] = module
        self._homes[name] = self.modules
        self.foreign.pop(name, None)

    def forget(self, name: str) -> None:
        if self.decide(name).origin is not Origin.CHILD:
            self._homes.pop(name, None)

    def clear(self) -> None:
        self.modules.clear()
        self._homes.clear()

    def view(self) -> Modules:
        seen = {
            name: module
            for name, module in framework_table().of_framework().items()
            if self.home(name) is None
        }
        if self.layer is not None:
            for name, module in list(self.layer.modules.items()):
                if self.home(name) is self.layer.modules:
                    seen[name] = module
        return seen | self.modules

    def remember(self, name: str) -> None:
        table = sys.modules
        for part in {name, name.partition(".")[0]}:
            home = self.home(part)
            if home is self.modules:
                continue
            found = dict.get(table, part) if home is None else home.get(part)
            if found is not None:
                self.foreign[part] = found

    def load_private(self, name: str, file: str) -> types.ModuleType:
        """Run Python file `file` of the framework once more, as this namespace's own top-level module `name`.
        Returns the module. ClosedUserCodeLoaderError if the namespace is closed and checked for late use.
        """
        self._must_be_open(f"module {name!r}")
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None, "it is a Python file"
        assert spec.loader is not None, "it is a Python file"
        module = importlib.util.module_from_spec(spec)
        self._adopt(name, module)
        self.modules[name] = module
        self.call(spec.loader.exec_module, module)
        return module

    def _path_of_user(self) -> list[str]:
        of_framework = set(framework_path())
        return [entry for entry in self.path if entry in self.artifacts or entry not in of_framework]

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return `function(*args, **kwargs)`, called so that imports in it mean this namespace's modules.
        Its errors pass. ClosedUserCodeLoaderError if the namespace is closed and `check_leaked` is on.
        """
        if self.closed:
            self._must_be_open("a call")
        token = enter(self.handle)
        try:
            return function(*args, **kwargs)
        finally:
            leave(token)

    def import_module(self, name: str) -> types.ModuleType:
        """Return a module as this namespace's code would import it, or raise the import's error."""
        return self.call(importlib.import_module, name)

    def run_main(self, file: Path) -> types.ModuleType:
        """Run a program as this namespace's `__main__`; return that module, or raise the program's error."""
        main = self.modules["__main__"]
        main.__file__ = str(file)
        code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
        self.call(exec, code, main.__dict__)
        return main

    def close(self) -> None:
        """Run the namespace's `atexit` functions, then (with `check_leaked`) refuse to load more through it.
        A second call does nothing. Objects that its modules made live on while they are referenced (`leaks`).
        """
        if self.closed:
            return
        self.call(restore_containers)
        self.run_at_exit()
        self.closed = True
        context.closed(self.handle)
        if not self.settings.check_leaked:
            return
        self.handle.namespace = ClosedNamespace(self.name)
        self.modules.clear()
        self.foreign.clear()
        self.meta_path.clear()

    def run_at_exit(self) -> None:
        """Call what code registered with the namespace's `atexit`, last first; print what the calls raise."""
        while self.at_exit:
            try:
                self.call(self.at_exit.pop()[1])
            except Exception:
                sys.excepthook(*sys.exc_info())

    def _must_be_open(self, what: str) -> None:
        if self.closed and self.settings.check_leaked:
            ClosedNamespace(self.name).refuse(what)

    def _builtins(self) -> dict[str, Any]:
        module = types.ModuleType("builtins")
        module.__dict__.update(builtins.__dict__)
        made = module.__dict__
        made[context.MARK] = self.handle
        made["__import__"] = import_of_namespace(self)
        made["__build_class__"] = _noting_classes(self.classes)
        self.modules["builtins"] = module
        return made

    def _special_modules(self) -> None:
        self._adopt("builtins", self.modules["builtins"])
        del self.builtins["__builtins__"]
        main = types.ModuleType("__main__")
        self._adopt("__main__", main)
        self.modules["__main__"] = main
        self.modules["atexit"] = _atexit(self.at_exit)

    def _adopt(self, name: str, module: types.ModuleType) -> None:
        module.__dict__["__builtins__"] = self.builtins
        if TOKEN not in module.__dict__:
            token = module.__dict__[TOKEN] = Token(name)
            self.tokens[name] = weakref.ref(token)


def _is_of_user(module: R) -> bool:
    if not isinstance(module, types.ModuleType):
        return False
    return dict.get(sys.modules, str(getattr(module, "__name__", None))) is not module


def _searched(artifacts: Sequence[str], of_framework: Sequence[str]) -> list[str]:
    """Return an isolated namespace's `sys.path`: the standard library, what the user brings, all else.
    A process that user code spawns gets this list and no namespace: a `json.py` of the user's must not come
    before Python's own there either.
    """
    standard = [entry for entry in of_framework if entry in STANDARD_PLACES]
    return [*standard, *artifacts, *(entry for entry in of_framework if entry not in STANDARD_PLACES)]


def _noting_classes(classes: weakref.WeakSet[type]) -> Callable[..., Any]:
    build = builtins.__build_class__

    def built(body: Callable[[], Any], name: str, *bases: Any, **kwargs: Any) -> Any:
        made = build(body, name, *bases, **kwargs)
        if isinstance(made, type):
            classes.add(made)
        return made

    # pydantic keeps the variables of the function that a class is defined in; this one is none of the
    # program's, so it looks like the module's own code.
    built.__code__ = built.__code__.replace(co_name="<module>")
    return built


def _atexit(registered: list[AtExit]) -> types.ModuleType:
    """Return an `atexit` module for a namespace, run when it closes: Spark's workers never end Python."""
    module = types.ModuleType("atexit", "Functions to be called at the end of this job's code.")

    def register(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Callable[P, R]:
        registered.append((function, lambda: function(*args, **kwargs)))
        return function

    def unregister(function: Hook) -> None:
        registered[:] = [entry for entry in registered if entry[0] != function]

    module.__dict__.update(
        register=register,
        unregister=unregister,
        _clear=registered.clear,
        _ncallbacks=registered.__len__,
        _run_exitfuncs=lambda: None,
    )
    return module
