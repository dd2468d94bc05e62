"""Checks of scenarios with several loaders: whose class, whose data, whose thread. Prints a JSON object.

python loading_program.py SOURCES FOLDER
"""

from __future__ import annotations

import importlib
import importlib.metadata
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from namespace_checks import FOUND, ROOT, check, tell
from user_packages import write_packages, write_wheel

from headgate.common.settings.loader_options import ResolveOrder
from headgate.usercode.loaders import Artifacts, UserCodeLoaders
from headgate.usercode.loading_errors import ForeignObjectError, UserCodeLoadError
from headgate.usercode.namespaces.code import NamespaceCode, refuse_leaving
from headgate.usercode.namespaces.loader import Namespace, NamespaceSettings
from headgate.usercode.resolution import ParentFirst, parent_first

PATTERN = NamespaceSettings(patterns=parent_first(additional=["jobpkg."]))
PARENT_FIRST = NamespaceSettings(order=ResolveOrder.PARENT_FIRST)


def classes(brought: list[str], settings: NamespaceSettings) -> list[type]:
    """One class as the framework has it, and as two loaders of the same files give it, twice each."""
    found = [importlib.import_module("jobpkg.models").Impl]
    for name in ("one", "two"):
        namespace = Namespace(name, brought, settings)
        found += [namespace.import_module("jobpkg.models").Impl for _ in range(2)]
    return found


def kinds(brought: list[str], settings: NamespaceSettings) -> tuple[int, bool]:
    """How many classes there are, and whether a loader gives the same one again."""
    parent, one, one_again, two, two_again = classes(brought, settings)
    return len({parent, one, two}), one is one_again and two is two_again


def class_loaders(brought: list[str]) -> None:
    """The orders of class loading, by the class itself."""
    check("sJ1 parent-first: one class for all", lambda: kinds(brought, PARENT_FIRST), (1, True))
    check("sJ1 child-first: a class for each", lambda: kinds(brought, NamespaceSettings()), (3, True))
    check("sJ1 pattern: the parent's class", lambda: kinds(brought, PATTERN), (1, True))


def library_cache(brought: list[str]) -> None:
    """Leases of two jobs."""
    loaders = UserCodeLoaders(
        lambda job, made: Namespace(job, made.paths, made.settings), lambda report: None
    )
    one = loaders.lease("one", Artifacts("two files", tuple(brought)))
    two = loaders.lease("two", Artifacts("one file", tuple(brought)))
    again = loaders.lease("one", Artifacts("two files", tuple(brought)))
    check("sJ3 two jobs have two loaders", lambda: one.namespace is not two.namespace)
    check("sJ3 a job keeps its loader", lambda: one.namespace is again.namespace)
    for lease in (one, two, again):
        lease.release()
    check("sJ3 no lease, no job", lambda: loaders.jobs, ())


def data_and_metadata(brought: list[str]) -> None:
    """Resources from a zip, and versions of what is the framework's."""
    check("zip", lambda: _zip("a"), ("a", "a", "1+a"))
    version = importlib.metadata.version
    check(
        "a parent-first distribution has the framework's version",
        lambda: [
            Namespace("m", brought, settings).call(version, "jobpkg")
            for settings in (NamespaceSettings(), PATTERN)
        ],
        ["1.0+a", "1.0+framework"],
    )


def _zip(version: str) -> tuple[str, str, str]:
    file = ROOT / f"zipped-{version}.zip"
    shutil.copy(write_wheel(ROOT, version), file)
    namespace = Namespace("zip", [str(file)])
    found = namespace.import_module("zipped").V
    data = namespace.call(lambda: importlib.import_module("pkgutil").get_data("zipped", "data.txt"))
    return found, data.decode(), namespace.call(importlib.metadata.version, "zipped")


def classes_of_an_api(brought: list[str]) -> None:
    """A job that ships its own copy of an API derives from the framework's."""
    folder = Path(brought[0])
    (folder / "functions.py").write_text(
        "from jobpkg.models import Base\nclass Mine(Base):\n    def f(self): return 'mine'\n"
    )
    (folder / "headgate" / "usercode").mkdir(parents=True)
    for name in ("__init__.py", "usercode/__init__.py", "usercode/loading_errors.py"):
        (folder / "headgate" / name).write_text("raise RuntimeError('a second framework')\n")
    (folder / "raises.py").write_text("from headgate.usercode.loading_errors import UserCodeLoadError as E\n")
    importlib.invalidate_caches()
    base = importlib.import_module("jobpkg.models").Base

    def derived(settings: NamespaceSettings) -> bool:
        return issubclass(Namespace("api", brought, settings).import_module("functions").Mine, base)

    check(
        "an API of both by a pattern is one",
        lambda: (derived(PATTERN), derived(NamespaceSettings())),
        (True, False),
    )
    check(
        "the framework itself is one without asking",
        lambda: Namespace("api", brought, NamespaceSettings(parent_first([]))).import_module("raises").E,
        UserCodeLoadError,
    )


def standard_library(brought: list[str]) -> None:
    """Modules of Python's own."""
    (Path(brought[0]) / "logging.py").write_text("raise RuntimeError('the standard library was shadowed')\n")
    (Path(brought[0]) / "colors.py").write_text("import colorsys, logging\nf = colorsys.rgb_to_hsv\n")
    importlib.invalidate_caches()
    check("not imported before", lambda: "colorsys" not in sys.modules)
    check("a file named logging.py", lambda: _color(brought).logging.getLogger is not None)
    check(
        "a standard module that user code imports first is executed once",
        lambda: _color(brought).f is importlib.import_module("colorsys").rgb_to_hsv,
    )


def _color(brought: list[str]) -> Any:
    return Namespace("colors", brought).import_module("colors")


def threads(folders: dict[str, str]) -> None:
    """Pools of the framework's, and many namespaces at once."""
    check("lazy import in a pool of the framework's", lambda: _in_pool(folders), ["a", "b"])
    check("six threads open twenty-five namespaces each", lambda: _many(folders), [])


def _in_pool(folders: dict[str, str]) -> list[str]:
    lazy = [Namespace(name, [folder]).import_module("jobpkg.dyn").lazy for name, folder in folders.items()]
    with ThreadPoolExecutor(2) as pool:
        return [pool.submit(function).result() for function in lazy]


def _many(folders: dict[str, str]) -> list[str]:
    wrong: list[str] = []

    def open_and_close(number: int) -> None:
        for turn in range(25):
            name = "ab"[(number + turn) % 2]
            namespace = Namespace(f"{number} {turn}", [folders[name]])
            module = namespace.import_module("jobpkg.dyn")
            said = [module.lazy(), namespace.call(module.by_name), namespace.call(module.in_thread)]
            if said != [name] * 3:
                wrong.append(f"{name}: {said}")
            namespace.close()

    running = [threading.Thread(target=open_and_close, args=(number,)) for number in range(6)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(150)
    return wrong + [thread.name for thread in running if thread.is_alive()]


def borders(folders: dict[str, str]) -> None:
    """Objects of a package of which each side has a copy; `jobpkg` stands for a data-plane package."""
    group = ParentFirst(("jobpkg.",))
    one, two = (Namespace(name, [folder]) for name, folder in folders.items())
    ours, theirs = (importlib.import_module("jobpkg.models").Leaf, two.import_module("jobpkg.models").Leaf)
    own = one.import_module("jobpkg.models").Leaf

    def refused(*values: Any) -> list[bool]:
        said = []
        for value in values:
            try:
                refuse_leaving(one, [value], group)
            except ForeignObjectError as error:
                said.append("jobpkg.models.Leaf" in str(error) and "native-modules" in str(error))
        return said

    check(
        "the namespace's objects do not leave",
        lambda: refused(own(1), [own(1)], (1, own(1)), {"x": own(1)}),
        [True] * 4,
    )
    check(
        "plain values and objects of other copies leave",
        lambda: refused(1, "x", [b""], ours(1), (theirs(1),)),
        [],
    )
    check(
        "only a copy of its own is looked for",
        lambda: NamespaceCode(one, group.patterns).refuse_leaving is not None,
    )
    shared = Namespace("shared", [folders["a"]], PATTERN)
    check(
        "objects of a shared copy leave", lambda: NamespaceCode(shared, group.patterns).refuse_leaving, None
    )


def main() -> None:
    """Run all checks."""
    folders = {name: str(write_packages(ROOT, name)) for name in ("framework", "a", "b")}
    sys.path.insert(0, folders.pop("framework"))
    importlib.import_module("jobpkg.models")
    brought = [folders["a"]]
    class_loaders(brought)
    library_cache(brought)
    data_and_metadata(brought)
    threads(folders)
    borders(folders)
    classes_of_an_api(brought)
    standard_library(brought)
    tell(FOUND)


if __name__ == "__main__":
    main()
