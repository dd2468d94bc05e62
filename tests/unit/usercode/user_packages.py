"""Packages of two jobs and of the framework under the same names, on disk, for the checks of namespaces."""

from __future__ import annotations

import zipfile
from pathlib import Path

MODELS = """
from __future__ import annotations
import abc, enum, logging, typing
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

class Color(enum.Enum):
    RED = 1
    BLUE = 2

class Base(abc.ABC):
    @abc.abstractmethod
    def f(self): ...

class Impl(Base):
    def f(self): return VERSION

class Pair(typing.NamedTuple):
    x: int
    y: int

class Typed(typing.TypedDict):
    leaf: Leaf

@dataclass
class Leaf:
    n: int

@dataclass
class Rec:
    x: int
    c: Color = Color.RED
    leaves: list[Leaf] = field(default_factory=list)

VERSION = "VERSION_HERE"
"""

DYNAMIC = """
import sys
def lazy():
    import lazydep
    return lazydep.VERSION
def lazy_from():
    from jobpkg.plug import make
    return make()
def in_thread(function=None):
    import threading
    out = []
    thread = threading.Thread(target=lambda: out.append((function or lazy)()))
    thread.start(); thread.join()
    return out[0]
def by_name():
    import importlib
    return importlib.import_module("lazydep").VERSION
def by_name_in_thread():
    return in_thread(by_name)
def by_name_in_pool():
    from concurrent.futures import ThreadPoolExecutor
    import importlib
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(importlib.import_module, "lazydep").result().VERSION
def relative_by_name():
    import importlib
    return importlib.import_module(".plug", __package__).make()
def dunder():
    return __import__("lazydep2").VERSION
def pkgutil_resolve():
    import pkgutil
    return pkgutil.resolve_name("lazydep2:VERSION")
def pkgutil_walk():
    import pkgutil, jobpkg
    names = {found.name for found in pkgutil.walk_packages(jobpkg.__path__, "jobpkg.")}
    wanted = {"jobpkg.sub.leaf", "jobpkg.models"}
    return wanted <= names and "jobpkg.only_framework" not in names
def pkgutil_data():
    import pkgutil
    return pkgutil.get_data("jobpkg", "res.txt").decode()
def resources():
    import importlib.resources
    return importlib.resources.files("jobpkg").joinpath("res.txt").read_text()
def metadata_version():
    import importlib.metadata
    return importlib.metadata.version("jobpkg")
def metadata_entry_points():
    import importlib.metadata
    found = importlib.metadata.entry_points(group="jobpkg.plugins")
    return ",".join(sorted(entry.value for entry in found))
def executed():
    space = {}
    text = "def f():\\n import lazydep4\\n return lazydep4.VERSION"
    exec("import lazydep3\\nv = lazydep3.VERSION\\n" + text, space)
    return space["v"] if space["v"] == space["f"]() else "mixed"
def event_loop():
    import asyncio, importlib
    async def main():
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, importlib.import_module, "lazydep")
        return found.VERSION
    return asyncio.run(main())
def reloaded():
    import importlib, lazydep
    return importlib.reload(lazydep).VERSION
def found_spec():
    import importlib.util
    origin = importlib.util.find_spec("lazydep4").origin
    return "VERSION_HERE" if "/VERSION_HERE/" in origin else origin
def patched_builtins():
    import builtins
    builtins.only_here = "VERSION_HERE"
    try:
        return only_here
    finally:
        del builtins.only_here
def namespace():
    from shared import of_user
    return of_user.VERSION
def namespace_of_framework():
    from shared import of_framework
    return of_framework.VERSION
def run_module():
    import runpy
    return runpy.run_module("jobpkg.plug")["make"]()
def forked():
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(by_name)
def spawned():
    import multiprocessing
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(by_name)
def table():
    seen = "jobpkg" in sys.modules and "jobpkg.dyn" in list(sys.modules)
    return sys.modules["jobpkg"].VERSION if seen else "?"
def hints():
    import typing
    from jobpkg import models
    of_rec, of_typed = typing.get_type_hints(models.Rec), typing.get_type_hints(models.Typed)
    leaves = of_rec["leaves"].__args__[0] is models.Leaf is of_typed["leaf"]
    return leaves and of_rec["c"] is models.Color
def pickled():
    import pickle
    from jobpkg import models
    return type(pickle.loads(pickle.dumps(models.Rec(1, models.Color.BLUE)))) is models.Rec
def pickled_in_python():
    import io, pickle
    from jobpkg import models
    out = io.BytesIO()
    pickle._Pickler(out).dump(models.Rec(1))
    return type(pickle._Unpickler(io.BytesIO(out.getvalue())).load()) is models.Rec
def source():
    import inspect
    from jobpkg import plug
    return 'return "VERSION_HERE"' in inspect.getsource(plug.make)
def warned():
    import warnings
    from jobpkg import plug
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plug.warn()
    return caught[0].filename == __file__
def logger_name():
    from jobpkg import models
    return models.log.name
def mocked():
    from unittest import mock
    from jobpkg import plug
    with mock.patch("jobpkg.plug.make", lambda: "patched"):
        return plug.make()
def dispatched():
    import functools
    from jobpkg import models
    @functools.singledispatch
    def show(thing): return "other"
    @show.register
    def _(thing: models.Rec): return "rec"
    return show(models.Rec(1))
def missing_part():
    try:
        import jobpkg.only_framework
    except ModuleNotFoundError:
        return True
    return False
def same_json():
    import json
    return json.dumps({}) == "{}" and json.__file__
def once():
    import once_only
    return once_only.COUNT
def cloned():
    import copy
    from jobpkg import models
    made = copy.deepcopy(models.Rec(1, models.Color.BLUE))
    return type(made) is models.Rec and made.c is models.Color.BLUE
"""

PLUG = """
import warnings
def make():
    return "VERSION_HERE"
def warn():
    warnings.warn("x", stacklevel=2)
"""

REPLACES = """
import sys, types
sys.modules[__name__] = types.SimpleNamespace(version="VERSION_HERE")
"""


def write_packages(root: Path, version: str) -> Path:
    """The packages of one owner, "a", "b" or "framework"; gives the folder for its path."""
    folder = root / version
    package = folder / "jobpkg"
    (package / "sub").mkdir(parents=True)
    files = {
        "__init__.py": 'VERSION = "VERSION_HERE"\n',
        "models.py": MODELS,
        "dyn.py": DYNAMIC,
        "plug.py": PLUG,
        "circ1.py": 'from jobpkg import circ2\nV = "VERSION_HERE"\ndef f():\n    return circ2.V\n',
        "circ2.py": 'from jobpkg import circ1\nV = "VERSION_HERE"\ndef f():\n    return circ1.V\n',
        "replaces.py": REPLACES,
        "sub/__init__.py": 'S = "VERSION_HERE"\n',
        "sub/leaf.py": "from . import S\nfrom .. import VERSION\nV = S + VERSION\n",
        "res.txt": "VERSION_HERE",
    }
    for name, text in files.items():
        (package / name).write_text(text.replace("VERSION_HERE", version))
    for number in ("", "2", "3", "4"):
        (folder / f"lazydep{number}.py").write_text(f"VERSION = {version!r}\n")
    portion = folder / "shared"
    portion.mkdir()
    _write_portion(portion, version)
    info = folder / "jobpkg-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: jobpkg\nVersion: 1.0+{version}\n")
    (info / "entry_points.txt").write_text(f"[jobpkg.plugins]\nplugin = {version}\n")
    (info / "top_level.txt").write_text("jobpkg\n")
    return folder


def _write_portion(portion: Path, version: str) -> None:
    if version == "framework":
        (portion / "of_framework.py").write_text("VERSION = 'framework'\n")
        (portion.parent / "jobpkg" / "only_framework.py").write_text("")
        (portion.parent / "only_in_framework.py").write_text("VERSION = 'framework'\n")
        (portion.parent / "once_only.py").write_text(
            "import builtins\nCOUNT = builtins.__dict__['times_executed'] = "
            "builtins.__dict__.get('times_executed', 0) + 1\n"
        )
    else:
        (portion / "of_user.py").write_text(f"VERSION = {version!r}\n")
        (portion.parent / "json.py").write_text("raise RuntimeError('the standard library was shadowed')\n")


def write_wheel(root: Path, version: str) -> Path:
    """A wheel with a package, a file of data and metadata."""
    path = root / f"zipped-{version}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("zipped/__init__.py", f"V = {version!r}\nfrom .inner import W\n")
        wheel.writestr("zipped/inner.py", f"W = {version!r}\n")
        wheel.writestr("zipped/data.txt", version)
        wheel.writestr(
            f"zipped-1+{version}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: zipped\nVersion: 1+{version}\n",
        )
    return path
