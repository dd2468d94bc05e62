"""Packed environments: which folder of one is the entry of the path, and whether it is of this Python.

`venv-pack`, `conda-pack` and a plain `tar` of a virtual environment all keep modules in
`lib/pythonX.Y/site-packages`, at the top or below one folder that holds all the rest.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from headgate.usercode.errors import UserCodeLoadError

_SITE_PACKAGES: Final = re.compile(r"(?:([^/]+)/)?lib/python(\d+\.\d+t?)/site-packages/.*", re.DOTALL)


def parts_of(name: str) -> tuple[str, ...]:
    r"""The parts of an entry's name, in either spelling.

    Example:
        >>> parts_of("./env/lib/"), parts_of("..\\out.py"), parts_of("./")
        (('env', 'lib'), ('..', 'out.py'), ())
    """
    return PurePosixPath(name.replace("\\", "/")).parts


def version_of_this() -> str:
    """This interpreter's, as the folders of libraries are named: those of free-threaded ones end in `t`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}{'t' if 't' in sys.abiflags else ''}"


def inside_of_names(names: Iterable[str], place: Path) -> str:
    """The folder that holds the modules, from the names in an archive, of which folders end in `/`; empty is
    its top.

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
    """The same of a folder; only its own top is looked at."""
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
