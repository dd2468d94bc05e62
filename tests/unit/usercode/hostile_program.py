"""Checks of a bundle that tries to run code where none is asked for. Prints a JSON object.

python hostile_program.py SOURCES FOLDER
"""

from __future__ import annotations

import site
import sys
from pathlib import Path
from typing import Any

from namespace_checks import FOUND, ROOT, check, tell

from headgate.usercode.bundle.artifacts import made_from, unpacked
from headgate.usercode.bundle.cache import ArtifactCache
from headgate.usercode.bundle.layouts import searched
from headgate.usercode.namespaces.loader import Namespace

LEAVES_A_TRACE = f"open({str(ROOT / 'trace')!r}, 'a').write(__name__ + '\\n')\n"
SHADOWS = ("json", "logging", "os", "importlib", "encodings", "builtins", "site")
PROGRAM = """
import multiprocessing
def where(name):
    import importlib
    return getattr(importlib.import_module(name), "__file__", None)
def spawned():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(where, ("json",))
"""


def trace() -> list[str]:
    """Which of the bundle's files have been run."""
    file = ROOT / "trace"
    return file.read_text().split() if file.exists() else []


def bundle() -> Path:
    """A folder as a job brings it."""
    folder = ROOT / "bundle"
    folder.mkdir()
    for name in ("sitecustomize", "usercustomize", *SHADOWS):
        (folder / f"{name}.py").write_text(LEAVES_A_TRACE)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "of_pth.py").write_text("")
    (ROOT / "outside").mkdir()
    (ROOT / "outside" / "of_pth_outside.py").write_text("")
    outside = [str(ROOT / "outside"), "../outside", "elsewhere/../../outside", "gone"]
    (folder / "imports.pth").write_text("\n".join(["import sitecustomize", "elsewhere", *outside]))
    (folder / "of_pth_only.pth").write_text(f"import sys; exec({LEAVES_A_TRACE!r})\n")
    (folder / "program.py").write_text(PROGRAM)
    return folder


def opened() -> Namespace:
    """The bundle as a worker gets it: packed, checked, unpacked."""
    made, files = made_from([bundle()], ROOT)
    (leased,) = unpacked(made, files, ArtifactCache(ROOT / "cache"))
    return Namespace("hostile", searched(leased.folder))


def whose(namespace: Namespace, name: str) -> bool:
    """Whether a module of the standard library is the interpreter's."""
    module: Any = namespace.import_module(name)
    return name == "builtins" or module is sys.modules[name]


def main() -> None:
    """Run all checks."""
    namespace = opened()
    program = namespace.import_module("program")
    check("neither sitecustomize nor usercustomize is run", trace, [])
    check("lines of .pth files are not run", trace, [])
    check("a .pth file adds what the bundle holds", lambda: _is_found(namespace, "of_pth"), True)
    check("a .pth file adds nothing else", lambda: _is_found(namespace, "of_pth_outside"), False)
    check(
        "files that shadow the standard library", lambda: [n for n in SHADOWS if not whose(namespace, n)], []
    )
    ours = sys.modules["json"].__file__
    check("nor in a process that the job spawns", lambda: namespace.call(program.spawned), ours)
    check("the framework's own path is as it was", lambda: [e for e in sys.path if "cache" in e], [])
    check("nothing was run", trace, [])
    check("the trap works", _sprung, True)
    tell(FOUND)


def _is_found(namespace: Namespace, name: str) -> bool:
    try:
        namespace.import_module(name)
    except ImportError:
        return False
    return True


def _sprung() -> bool:
    """Where Python looks for .pth files the bundle's do run: the checks above would notice."""
    site.addsitedir(str(ROOT / "bundle"))
    return bool(trace())


if __name__ == "__main__":
    main()
