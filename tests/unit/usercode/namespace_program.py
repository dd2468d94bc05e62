"""Checks of the namespace loader, in their own interpreter: prints one JSON object, check -> what it found.

    python namespace_program.py SOURCES FOLDER

Needs nothing but the standard library and `headgate.usercode`, which it imports without the package around
it, so that any interpreter can run it.
"""

from __future__ import annotations

import builtins
import importlib
import json
import pickle
import sys
import threading
import unittest.mock
from pathlib import Path
from typing import Any

from namespace_checks import FOUND, ROOT, check, tell
from user_packages import write_packages, write_wheel

from headgate.common.settings.loader_options import ResolveOrder
from headgate.usercode.loading_errors import UserCodeLoadError
from headgate.usercode.namespaces.code import NamespaceCode
from headgate.usercode.namespaces.loader import Namespace, NamespaceSettings
from headgate.usercode.resolution import Origin, parent_first

Jobs = dict[str, Namespace]

SAME_IN_EACH = (
    *(
        "lazy",
        "lazy_from",
        "in_thread",
        "by_name",
        "by_name_in_thread",
        "by_name_in_pool",
        "relative_by_name",
    ),
    *("dunder", "pkgutil_resolve", "pkgutil_data", "resources", "executed", "event_loop", "reloaded"),
    *("found_spec", "patched_builtins", "namespace", "run_module", "forked", "spawned", "table"),
)
"""Give the job's own version, called in its namespace."""
OUTSIDE = ("lazy", "lazy_from", "in_thread", "by_name", "by_name_in_thread", "relative_by_name", "executed")
"""Give it also when the framework calls them without entering the namespace."""
TRUE_IN_EACH = (
    *("pkgutil_walk", "hints", "pickled", "pickled_in_python", "source", "warned", "missing_part", "cloned"),
)


def dynamic(namespace: Namespace) -> Any:
    """The job's module of functions."""
    return namespace.import_module("jobpkg.dyn")


def in_each(jobs: Jobs, function: str, entered: bool = True) -> list[Any]:
    """What a function of both jobs gives."""
    found = []
    for namespace in jobs.values():
        called = getattr(dynamic(namespace), function)
        found.append(namespace.call(called) if entered else called())
    return found


def functions_of_jobs(jobs: Jobs) -> None:
    """Everything that `jobpkg.dyn` does."""
    versions = list(jobs)
    for name in SAME_IN_EACH:
        check(name, lambda name=name: in_each(jobs, name), versions)
    for name in OUTSIDE:
        check(f"{name} outside", lambda name=name: in_each(jobs, name, entered=False), versions)
    for name in TRUE_IN_EACH:
        check(name, lambda name=name: in_each(jobs, name), [True, True])
    check("hints outside", lambda: in_each(jobs, "hints", entered=False), [True, True])
    check("namespace_of_framework", lambda: in_each(jobs, "namespace_of_framework"), ["framework"] * 2)
    check("metadata_version", lambda: in_each(jobs, "metadata_version"), ["1.0+a", "1.0+b"])
    check("metadata_entry_points", lambda: in_each(jobs, "metadata_entry_points"), ["a", "b"])
    check("logger_name", lambda: in_each(jobs, "logger_name"), ["jobpkg.models"] * 2)
    check("mocked", lambda: in_each(jobs, "mocked"), ["patched"] * 2)
    check("mocked elsewhere", lambda: importlib.import_module("jobpkg.plug").make(), "framework")
    check("dispatched", lambda: in_each(jobs, "dispatched"), ["rec"] * 2)
    check("standard library cannot be shadowed", lambda: in_each(jobs, "same_json"), [json.__file__] * 2)
    check("framework module first imported by user code", lambda: in_each(jobs, "once"), [1, 1])
    check("circular", lambda: [_circular(namespace) for namespace in jobs.values()], versions)
    check("replaces itself", lambda: [_replaced(namespace) for namespace in jobs.values()], versions)
    check("relative", lambda: [_leaf(namespace) for namespace in jobs.values()], ["aa", "bb"])


def _circular(namespace: Namespace) -> str:
    first, second = namespace.import_module("jobpkg.circ1"), namespace.import_module("jobpkg.circ2")
    return first.f() if first.f() == second.f() else "mixed"


def _replaced(namespace: Namespace) -> str:
    return namespace.import_module("jobpkg.replaces").version


def _leaf(namespace: Namespace) -> str:
    return namespace.import_module("jobpkg.sub.leaf").V


def borders(jobs: Jobs) -> None:
    """What lies between namespaces, and between them and the framework."""
    check("identity", lambda: _identity(jobs))
    check("pickle written in one, read in the other", lambda: _pickled_across(jobs))
    check("C pickle from a framework frame", lambda: _pickled_by_framework(jobs["a"]))
    check("framework's own lazy import", lambda: _lazy_import_of_framework(jobs["a"]), ["framework"] * 2)
    check("framework's static import below user code", lambda: _static_below(jobs["a"]), "framework")
    check(
        "framework view untouched",
        lambda: (sys.modules["jobpkg"].VERSION, importlib.import_module("jobpkg.plug").make()),
        ("framework", "framework"),
    )
    check("wheel", lambda: [_wheel(version) for version in jobs], [_wheel_of("a"), _wheel_of("b")])
    check("two threads", lambda: _two_threads(jobs), {"a": {"a"}, "b": {"b"}})
    check("called", lambda: [_called(namespace) for namespace in jobs.values()], list(jobs))
    check("generator", lambda: [_generated(namespace) for namespace in jobs.values()], [["a"] * 3, ["b"] * 3])
    check("main", lambda: [_main(namespace, version) for version, namespace in jobs.items()], list(jobs))
    check("function by value", lambda: _by_value(jobs), ["b", "b", True])
    check("what is missing is named", lambda: _missing(jobs["b"]))
    check("builtins patch stays", lambda: hasattr(builtins, "only_here"), False)
    check("user's meta path hook", lambda: [_hooked(namespace) for namespace in jobs.values()], list(jobs))
    check("hook of the user's is not the framework's", lambda: "made_up" in sys.modules, False)
    check("path edit stays", lambda: _path_edit(jobs["a"]))
    check("assigned path stays", lambda: _assigned_path(jobs["a"]), ["elsewhere", "b", True, True])
    check(
        "standard module in the place of another", lambda: _in_place_of_standard(jobs), ["json", True, "wave"]
    )
    check("table emptied for a while", lambda: _patched_table(jobs["a"]), ["a", "json", "framework", True])
    check("sys crosses", lambda: travelled(jobs, sys) is sys)


def _identity(jobs: Jobs) -> bool:
    a, b = (namespace.import_module("jobpkg.models") for namespace in jobs.values())
    ours = importlib.import_module("jobpkg.models")
    return (
        not isinstance(a.Impl(), b.Base)
        and not issubclass(a.Impl, ours.Base)
        and a.Color.RED != b.Color.RED
        and a.Rec(1) != b.Rec(1)
        and isinstance(a.Impl(), a.Base)
        and a.Pair(1, 2) == b.Pair(1, 2)
    )


def _pickled_across(jobs: Jobs) -> bool:
    a, b = (namespace.import_module("jobpkg.models") for namespace in jobs.values())
    written = jobs["a"].call(pickle.dumps, a.Rec(7, a.Color.BLUE))
    read = jobs["b"].call(pickle.loads, written)
    return type(read) is b.Rec and read.x == 7 and read.c is b.Color.BLUE


def _pickled_by_framework(namespace: Namespace) -> bool:
    models = namespace.import_module("jobpkg.models")
    written = namespace.call(lambda: pickle.dumps(models.Rec(7)))
    return type(namespace.call(lambda: pickle.loads(written))) is models.Rec


def _framework_function(text: str) -> Any:
    space: dict[str, Any] = {"__name__": "of_framework", "__builtins__": builtins}
    exec(text, space)
    return space["api"]


def _lazy_import_of_framework(namespace: Namespace) -> list[str]:
    api = _framework_function("def api():\n import lazydep2\n return lazydep2.VERSION")
    return [namespace.call(api), api()]


def _static_below(namespace: Namespace) -> str:
    """User code, called without its namespace, calls the framework, which imports."""
    api = _framework_function("def api():\n import lazydep3\n return lazydep3.VERSION")
    module = dynamic(namespace)
    module.__dict__["api"] = api
    exec("def through():\n return api()", module.__dict__)
    return module.through()


def _wheel_of(version: str) -> tuple[str, ...]:
    return version, version, version, f"1+{version}"


def _wheel(version: str) -> tuple[str, ...]:
    namespace = Namespace(f"wheel {version}", [str(write_wheel(ROOT, version))])
    module = namespace.import_module("zipped")
    files = namespace.call(importlib.import_module, "importlib.resources").files
    metadata = namespace.call(importlib.import_module, "importlib.metadata")
    data = namespace.call(lambda: files("zipped").joinpath("data.txt").read_text())
    return module.V, module.W, data, namespace.call(metadata.version, "zipped")


def _two_threads(jobs: Jobs) -> dict[str, set[str]]:
    for version, namespace in jobs.items():
        folder = next(iter(namespace.artifacts))
        for number in range(30):
            text = f"import time; time.sleep(0.001); V = {version!r}\n"
            Path(folder, f"many{number}.py").write_text(text)
    importlib.invalidate_caches()
    barrier, seen = threading.Barrier(len(jobs)), {}

    def load(version: str) -> None:
        barrier.wait()
        seen[version] = {jobs[version].import_module(f"many{number}").V for number in range(30)}

    threads = [threading.Thread(target=load, args=(version,)) for version in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return dict(sorted(seen.items()))


def _called(namespace: Namespace) -> str:
    return NamespaceCode(namespace, ()).call(lambda name: importlib.import_module(name).VERSION, "jobpkg")


def _generated(namespace: Namespace) -> list[str]:
    def three() -> Any:
        for _ in range(3):
            yield importlib.import_module("lazydep").VERSION

    found = []
    items = three()
    while (version := namespace.call(next, items, None)) is not None:
        found.append(version if importlib.import_module("lazydep").VERSION == "framework" else "mixed")
    return found


def _main(namespace: Namespace, version: str) -> str:
    program = ROOT / f"program-{version}.py"
    program.write_text(
        "import lazydep\nclass Made: pass\nfound = lazydep.VERSION if __name__ == '__main__' else '?'\n"
    )
    main = namespace.run_main(program)
    same = namespace.call(pickle.loads, namespace.call(pickle.dumps, main.Made()))
    return main.found if type(same) is main.Made and sys.modules["__main__"] is not main else "mixed"


def _assigned_path(namespace: Namespace) -> list[Any]:
    """`sys.path = [...] + sys.path` is the namespace's path from then on, and nobody else's."""
    place, before, container = ROOT / "assigned", list(sys.path), sys.path
    place.mkdir()
    (place / "elsewhere_only.py").write_text("VERSION = 'elsewhere'\n")
    program = ROOT / "assigns.py"
    program.write_text(f"import sys\nsys.path = [{str(place)!r}] + sys.path\nimport elsewhere_only\n")
    main = namespace.run_main(program)
    try:
        importlib.import_module("elsewhere_only")
        seen = "a"
    except ImportError:
        seen = "b"
    same = sys.path is container and list(sys.path) == before
    return [main.elsewhere_only.VERSION, seen, same, namespace.call(lambda: sys.path[0] == str(place))]


def _in_place_of_standard(jobs: Jobs) -> list[Any]:
    """`sys.modules["wave"] = json` is for the namespace that says it."""
    program = ROOT / "replaces.py"
    program.write_text("import sys, json\nsys.modules['wave'] = json\nimport wave\nNAME = wave.__name__\n")
    name = jobs["a"].run_main(program).NAME
    others = [jobs["b"].import_module("wave"), importlib.import_module("wave")]
    kept = json.__builtins__ is not jobs["a"].builtins  # type: ignore[attr-defined]
    jobs["a"].call(lambda: sys.modules.pop("wave"))
    same = others[0] is others[1] is jobs["a"].import_module("wave") and kept
    return [name, same, others[0].__name__]


def _patched_table(namespace: Namespace) -> list[Any]:
    """As `unittest.mock` does it: emptied and filled again."""
    before = dict.__len__(sys.modules)

    def patched() -> list[Any]:
        with unittest.mock.patch.dict(sys.modules, {"jobpkg.made_up": json}):
            pass
        return [importlib.import_module("jobpkg").VERSION, importlib.import_module("json").__name__]

    found = namespace.call(patched)
    return [*found, importlib.import_module("jobpkg").VERSION, dict.__len__(sys.modules) >= before]


def travelled(jobs: Jobs, thing: Any) -> Any:
    """What one namespace has pickled, restored in the other one."""
    one, other = (NamespaceCode(namespace, ()) for namespace in jobs.values())
    return other.load(one.call(one.pickler().dumps, thing))


def _by_value(jobs: Jobs) -> list[Any]:
    """A function of a program travels from one namespace to another, and imports there what is there."""
    program = ROOT / "by_value.py"
    program.write_text(
        "import lazydep\n"
        "class Made:\n    def say(self): return lazydep.VERSION\n"
        "def late():\n    import lazydep2\n    return lazydep2.VERSION, Made().say()\n"
    )
    main = jobs["a"].run_main(program)
    late = travelled(jobs, main.late)
    return [*late(), late.__builtins__ is jobs["b"].builtins]


def _missing(namespace: Namespace) -> bool:
    try:
        NamespaceCode(namespace, ()).load(b"cnowhere_to_be_found\nthing\n.")
    except UserCodeLoadError as error:
        return "nowhere_to_be_found" in str(error) and "'job b'" in str(error)
    return False


def _hooked(namespace: Namespace) -> str:
    text = """
import importlib.abc, importlib.machinery, sys
class Hook(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "made_up" else None
    def create_module(self, spec): return None
    def exec_module(self, module): module.VERSION = lazydep.VERSION
import lazydep
sys.meta_path.append(Hook())
import made_up
VERSION = made_up.VERSION
"""
    Path(next(iter(namespace.artifacts)), "hooking.py").write_text(text)
    importlib.invalidate_caches()
    return namespace.import_module("hooking").VERSION


def _path_edit(namespace: Namespace) -> bool:
    before = list(sys.path)
    namespace.call(lambda: sys.path.insert(0, "/nowhere"))
    return list(sys.path) == before and namespace.call(lambda: sys.path[0]) == "/nowhere"


def orders_and_patterns(folders: dict[str, Path]) -> None:
    """Options of resolution."""
    brought = [str(folders["a"])]

    def origin(name: str, **settings: Any) -> str:
        return Namespace("options", brought, NamespaceSettings(**settings)).decide(name).origin.value

    user, ours = Origin.CHILD.value, Origin.PARENT.value
    check("child first", lambda: origin("jobpkg"), user)
    check("parent first", lambda: origin("jobpkg", order=ResolveOrder.PARENT_FIRST), ours)
    check("parent first, only the user has it", lambda: _only_user(folders), user)
    check("pattern with a dot", lambda: origin("jobpkg", patterns=parent_first(additional=["jobpkg."])), ours)
    check("pattern without one", lambda: origin("lazydep2", patterns=parent_first(additional=["lazy"])), ours)
    check(
        "pattern of a longer name",
        lambda: origin("lazydep2", patterns=parent_first(additional=["lazy."])),
        user,
    )
    check("mandatory patterns", lambda: origin("headgate.common", patterns=parent_first([])), ours)
    check("only the framework has it", lambda: origin("only_in_framework"), ours)


def _only_user(folders: dict[str, Path]) -> str:
    (folders["a"] / "of_a_only.py").write_text("")
    importlib.invalidate_caches()
    settings = NamespaceSettings(order=ResolveOrder.PARENT_FIRST)
    return Namespace("options", [str(folders["a"])], settings).decide("of_a_only").origin.value


def main() -> None:
    """Run all checks."""
    folders = {version: write_packages(ROOT, version) for version in ("framework", "a", "b")}
    sys.path.insert(0, str(folders["framework"]))
    for name in ("jobpkg.models", "jobpkg.plug", "lazydep", "lazydep2", "lazydep3", "lazydep4"):
        importlib.import_module(name)
    jobs = {version: Namespace(f"job {version}", [str(folders[version])]) for version in ("a", "b")}
    functions_of_jobs(jobs)
    borders(jobs)
    orders_and_patterns(folders)
    tell(FOUND)


if __name__ == "__main__":
    main()
