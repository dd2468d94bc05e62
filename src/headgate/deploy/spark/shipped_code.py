"""Collects the source files that executors on other machines need, and gives them to Spark as an archive.

Headgate itself always goes along, so executors run the driver's own version. Of the program go the modules
that it has imported and those beside its script. What is installed (site-packages, the standard library) does
not: executors bring their own, and what Spark distributes already (`--py-files`, `addArtifact`) is there.
"""

from __future__ import annotations

import site
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from headgate.common.errors import UsageError
from headgate.common.files.durable import sha256
from headgate.common.settings.options import SHIP_CODE
from headgate.usercode.bundle.packing import program_files

if TYPE_CHECKING:
    from pyspark import SparkContext

SIZE_MAX: Final = 64 * 1024 * 1024
"""Bytes of source files, before they are packed: more than that are no modules beside a program."""

_HEADGATE: Final = Path(__file__).resolve().parents[2]
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules"})
_SAME_TIME: Final = (1980, 1, 1, 0, 0, 0)

_lock: Final = threading.Lock()
_added: Final[set[tuple[str, str]]] = set()


def ship(context: SparkContext) -> None:
    """Ship Headgate and the program's modules by Spark to every executor, also to those that come later.

    All Python workers of the application have them in front of their import path from now on, so that tasks
    which feed a gang find them, too. What is shipped already is not shipped again. UsageError: over 64 MiB.
    """
    from pyspark import SparkFiles

    elsewhere = (Path(SparkFiles.getRootDirectory()), Path(sys.modules["pyspark"].__path__[0]).parent)
    files = collect(sys.modules, installed_roots(elsewhere))
    name = f"headgate-code-{fingerprint(files)}.zip"
    with _lock:
        # Spark takes an archive of the same name for the same one, and warns.
        if (context.applicationId, name) not in _added:
            # In Spark's own folder for as long as it runs: executors that replace lost ones fetch it late.
            context.addArchive(str(_pack(files, Path(context._temp_dir) / name)))
            # As addPyFile() does, but it is an unpacked folder: modules are compiled once per executor.
            assert context._python_includes is not None
            context._python_includes.append(name)
            _added.add((context.applicationId, name))


def installed_roots(more: Iterable[Path] = ()) -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    roots = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")]
    # A virtual environment's standard library is that of the Python it was made with.
    found = {Path(path).resolve() for path in (*roots, *site.getsitepackages(), site.getusersitepackages())}
    return tuple(sorted(found | {path.resolve() for path in more}))


def collect(modules: Mapping[str, ModuleType], installed: Iterable[Path]) -> dict[str, Path]:
    """Return the files to ship, by name in the archive; UsageError if they exceed 64 MiB.

    These are Headgate's, those of `modules` outside of `installed`, and those beside the program's script.
    """
    installed = tuple(installed)
    found = dict(_below(_HEADGATE))
    for top in _tops(modules, installed):
        found.update(_below(top) if top.is_dir() else [(top.name, top)])
    script = getattr(modules.get("__main__"), "__file__", None)
    if script is not None and not _is_installed(Path(script).resolve(), installed):
        # Also what functions import only once they run.
        folder = Path(script).resolve().parent
        found.update((file.relative_to(folder).as_posix(), file) for file in program_files(folder, SIZE_MAX))
    size = sum(file.stat().st_size for file in found.values())
    if size > SIZE_MAX:
        largest = max(found.values(), key=lambda file: file.stat().st_size)
        raise UsageError(
            f"the modules beside the program have {size / 1024**2:.0f} MB, {str(largest)!r} most, and "
            f"at most {SIZE_MAX // 1024**2} MB are sent to executors; move data out of the packages, or give "
            f"executors the code by --py-files or in their image, and set {SHIP_CODE.key}=false"
        )
    return found


def fingerprint(files: Mapping[str, Path]) -> str:
    """Return a hash of files' names and contents as 12 hexadecimal digits; `files` maps name to file."""
    digest = sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{files[name].stat().st_size}\0".encode())
        digest.update(files[name].read_bytes())
    return digest.hexdigest()[:12]


def _pack(files: Mapping[str, Path], target: Path) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in sorted(files):
            archive.writestr(zipfile.ZipInfo(entry, _SAME_TIME), files[entry].read_bytes())
    return target


def _tops(modules: Mapping[str, ModuleType], installed: tuple[Path, ...]) -> set[Path]:
    found = {_HEADGATE}
    for name, module in list(modules.items()):
        if "." not in name and name != "__main__":
            found.update(path for path in _places(module) if not _is_installed(path, installed))
    return found


def _places(module: ModuleType) -> Iterator[Path]:
    folders = getattr(module, "__path__", None)
    places = [getattr(module, "__file__", None)] if folders is None else list(folders)
    for place in places:
        if isinstance(place, str) and (path := Path(place).resolve()).exists():
            yield path


def _is_installed(path: Path, installed: tuple[Path, ...]) -> bool:
    return bool(_INSTALLED & set(path.parts)) or any(path.is_relative_to(root) for root in installed)


def _below(package: Path) -> Iterator[tuple[str, Path]]:
    for path in package.rglob("*"):
        parts = path.relative_to(package.parent).parts
        hidden = any(part.startswith(".") or part in _LEFT_OUT for part in parts)
        if not hidden and path.is_file():
            yield "/".join(parts), path
