"""What the programs of checks share: the bare package, checks that are noted by name, and the end.

A program is run as `python program.py SOURCES FOLDER ...` and prints one JSON object. It imports this before
anything of `headgate.usercode`, which then comes without the package around it, so that any interpreter can
run it.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

_bare = sys.modules["headgate"] = ModuleType("headgate")
_bare.__path__ = [str(Path(sys.argv[1], "headgate"))]

ROOT = Path(sys.argv[2])
"""A folder for the program's own."""
FOUND: dict[str, Any] = {}


def check(name: str, made: Callable[[], Any], expected: Any = True) -> None:
    """Note "ok", or what came instead."""
    assert name not in FOUND, f"two checks are called {name!r}"
    try:
        got = made()
        FOUND[name] = "ok" if got == expected else f"got {got!r}, expected {expected!r}"
    except BaseException:
        FOUND[name] = traceback.format_exc()


def tell(found: Any) -> NoReturn:
    """Print what was found and leave at once, without the end of an interpreter full of namespaces."""
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)
