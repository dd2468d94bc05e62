"""Decides whether a program is isolated: whether its modules get a namespace, or a process, of their own.

Most programs need no isolation: in the plain interpreter they import the same copies. This file decides that
before the program is loaded, and is all of `usercode` that is loaded for a plain program on one machine. The
table is in decision 0204.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder, all_suffixes
from pathlib import Path
from typing import Final

from headgate.common.errors import ConfigError
from headgate.common.process.search_path import framework_path
from headgate.common.settings.config import Config
from headgate.common.settings.loader_options import (
    USER_CODE_APART,
    USER_CODE_PATH,
    USER_CODE_REQUIREMENTS,
    Isolation,
)

FRAMEWORK_MODULES: Final = frozenset([
    "cloudpickle", "confluent_kafka", "duckdb", "fastavro", "headgate", "isal", "kazoo", "msgspec", "numpy",
    "obstore", "openlineage", "opentelemetry", "packaging", "pandas", "polars", "py4j", "pyarrow", "pyspark",
    "rich", "rocksdict", "starlette", "typer", "typing_extensions", "uvicorn", "yaml", "zstandard",
])  # fmt: skip
"""Packages that Headgate imports where they are installed: a program's module would be taken for them."""


def why_isolated(program: Path, config: Config, shared: bool) -> str | None:
    """Return the reason to isolate a program's modules, None if it runs as under plain Python.

    `config` is that of the command line, as what a program sets itself comes too late; `shared`: this process
    runs, or has run, another program. ConfigError if isolation is off and the program brings packages.
    """
    asked = config.get(USER_CODE_APART)
    brings = [USER_CODE_PATH.key] if config.get(USER_CODE_PATH) else []
    brings += [USER_CODE_REQUIREMENTS.key] if config.get(USER_CODE_REQUIREMENTS) else []
    if asked is Isolation.NEVER:
        if brings:
            raise ConfigError(
                f"{USER_CODE_APART.key} is false, and the program brings packages of its own "
                f"({', '.join(brings)}), which can only be loaded isolated; leave one of them out"
            )
        return None
    if asked is Isolation.ALWAYS:
        return f"{USER_CODE_APART.key} is true"
    if brings:
        return f"it brings packages ({', '.join(brings)})"
    if shared:
        return "this process serves other programs, too"
    taken = next(taken_names(program.resolve().parent), None)
    return None if taken is None else f"{taken!r} next to it has the name of a module that others import"


def taken_names(folder: Path, path: Sequence[str] | None = None) -> Iterator[str]:
    """Yield names of modules in `folder` that others have, in order; they would be taken for each other.

    Others are modules that are loaded, those on `path` (None: `sys.path`), and those that Headgate imports.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("job.py", "helpers.py", "json.py", "kazoo.py", "pyarrow/data.csv", "json/data.json"):
        ...     (folder / name).parent.mkdir(exist_ok=True); (folder / name).touch()
        >>> list(taken_names(folder))
        ['json', 'kazoo', 'pyarrow']
    """
    folder, searched = folder.resolve(), framework_path() if path is None else path
    elsewhere = [entry for entry in map(str, searched) if Path(entry or ".").resolve() != folder]
    for name, is_regular in sorted(_names(folder)):
        if name in sys.stdlib_module_names:
            is_taken = is_regular  # else the library's own comes first anyway
        else:
            is_taken = name in FRAMEWORK_MODULES or _is_loaded(name, folder) or _is_found(name, elsewhere)
        if is_taken:
            yield name


def _names(folder: Path) -> set[tuple[str, bool]]:
    found: dict[str, bool] = {}
    try:
        entries = list(os.scandir(folder))
    except OSError:  # a folder that this user may enter and not list
        return set()
    for entry in entries:
        name = entry.name
        if os.path.isdir(entry):  # noqa: PTH112 - False for a link to what cannot be looked at
            is_regular = os.path.isfile(f"{entry.path}/__init__.py")  # noqa: PTH113 - likewise
        else:
            suffix = next((end for end in all_suffixes() if name.endswith(end)), None)
            if suffix is None:
                continue
            name, is_regular = name.removesuffix(suffix), True
        if name.isidentifier():
            found[name] = found.get(name, False) or is_regular
    return {(name, is_regular) for name, is_regular in found.items() if not name.startswith("__")}


def _is_loaded(name: str, folder: Path) -> bool:
    module = sys.modules.get(name)
    if module is None:
        return False
    file = getattr(module, "__file__", None)
    return not isinstance(file, str) or not Path(file).resolve().is_relative_to(folder)


def _is_found(name: str, path: Sequence[str]) -> bool:
    spec = PathFinder.find_spec(name, path)
    return spec is not None and spec.origin is not None
