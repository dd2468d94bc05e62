"""Where modules lie in what a user brings: packed environments, wheels, `*.pth` files; and for which Python.

`venv-pack`, `conda-pack` and a plain `tar` of a virtual environment all keep modules in
`lib/pythonX.Y/site-packages`, at the top or below one folder that holds all the rest. A wheel is not
installed here, so its modules stay where it keeps them. Code in `*.pth` files is never run: Python's own
`site` executes their lines that begin with `import` in every process that starts.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from headgate.usercode.loading_errors import UserCodeLoadError

_log = logging.getLogger("headgate.usercode")

_SITE_PACKAGES: Final = re.compile(r"(?:([^/]+)/)?lib/python(\d+\.\d+t?)/site-packages/.*", re.DOTALL)


def parts_of(name: str) -> tuple[str, ...]:
    r"""Return the parts of an archive entry's name, written with slashes or backslashes.

    Example:
        >>> parts_of("./env/lib/"), parts_of("..\\out.py"), parts_of("./")
        (('env', 'lib'), ('..', 'out.py'), ())
    """
    return PurePosixPath(name.replace("\\", "/")).parts


def version_of_this() -> str:
    """Return this interpreter's version as folders of libraries name it: with a `t` if free-threaded."""
    return f"{sys.version_info.major}.{sys.version_info.minor}{'t' if 't' in sys.abiflags else ''}"


def inside_of_names(names: Iterable[str], place: Path) -> str:
    """Return the folder of an archive that holds its modules; empty is its top. Names of folders end in `/`.

    UserCodeLoadError, which calls the archive `place`, if it is an environment of other Pythons only.

    Example:
        >>> inside_of_names(["job.py", "models/__init__.py"], Path("mods.tar.gz"))
        ''
        >>> below = f"lib/python{version_of_this()}/site-packages"
        >>> found = inside_of_names(["env/bin/python", f"env/{below}/attr.py"], Path("env.zip"))
        >>> found == f"env/{below}"
        True
    """
    tops: set[str] = set()
    versions: set[tuple[str, str]] = set()
    for name in names:
        parts = parts_of(name)
        tops.update(parts[:1])
        found = _SITE_PACKAGES.fullmatch("/".join(parts) + "/" * name.endswith("/"))
        if found is not None:
            versions.add((found[1] or "", found[2]))
    top = next(iter(tops)) if len(tops) == 1 and tops != {"lib"} else ""
    return _inside(top, {version for above, version in versions if above == top}, place)


def inside_of_folder(folder: Path) -> str:
    """Return where modules lie in a folder: '', or site-packages; UserCodeLoadError for another Python's."""
    found = (path for path in folder.glob("lib/python*/site-packages") if path.is_dir())
    return inside_of_names([f"{path.relative_to(folder).as_posix()}/" for path in found], folder)


def _inside(top: str, versions: set[str], place: Path) -> str:
    this = version_of_this()
    if versions and this not in versions:
        raise UserCodeLoadError(
            f"user code {str(place)!r} is an environment of Python {', '.join(sorted(versions))}, and this "
            f"is Python {this}; pack an environment of the Python that the driver and the workers run"
        )
    return str(PurePosixPath(top, "lib", f"python{this}", "site-packages")) if versions else ""


def searched(folder: Path) -> tuple[str, ...]:
    r"""Return the folders to search for modules in an unpacked artifact: its top, then others below it.

    They are `NAME-VERSION.data/purelib` and `platlib` of a wheel, and what `*.pth` files in any of them add.
    A folder outside is not part of what the user brings, and is left out with a warning.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "win32" / "lib").mkdir(parents=True)
        >>> (folder / "win32.pth").write_text("# two\nwin32\nwin32/lib\nimport win32_bootstrap\n")
        45
        >>> [str(Path(entry).relative_to(folder)) for entry in searched(folder)]
        ['.', 'win32', 'win32/lib']
    """
    roots = [folder, *_parts_of_wheel(folder)]
    found = dict.fromkeys(map(str, roots))
    for root in roots:
        for file in sorted(root.glob("*.pth")):
            found.update(dict.fromkeys(_named_in(file, root)))
    return tuple(found)


def _parts_of_wheel(folder: Path) -> Iterator[Path]:
    for metadata in sorted(folder.glob("*.dist-info/WHEEL")):
        data = folder / f"{metadata.parent.name.removesuffix('.dist-info')}.data"
        yield from (part for part in (data / "purelib", data / "platlib") if part.is_dir())


def _named_in(file: Path, folder: Path) -> Iterator[str]:
    root = folder.resolve()
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith(("import ", "import\t")):
            _log.info("%s has code that Python would run at every start; it is not run: %s", file, text)
            continue
        place = folder / text
        if not place.resolve().is_relative_to(root):
            _log.warning(
                "%s names %r, outside of what the job brings, and workers have nothing there; bring that "
                "folder, too",
                file,
                text,
            )
        elif place.is_dir():
            yield str(place)
