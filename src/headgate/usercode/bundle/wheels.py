"""What a wheel's name says of the interpreters that it is for; platforms are not compared."""

from __future__ import annotations

import re
import sys
from typing import Final

from headgate.usercode.bundle.environments import version_of_this
from headgate.usercode.errors import UserCodeLoadError

_PYTHON: Final = re.compile(r"(py|cp)(\d)(\d*)")


def check_wheel(name: str) -> None:
    """See that a wheel can be used here; what is no wheel, or not named as one, is left alone.

    Args:
        name: of a file.

    Raises:
        UserCodeLoadError: it is for other interpreters only.

    Example:
        >>> check_wheel("attrs-24.2.0-py3-none-any.whl"), check_wheel("env.tar.gz")
        (None, None)
        >>> check_wheel("x-1.0-cp27-cp27mu-linux_x86_64.whl")
        Traceback (most recent call last):
        ...
        headgate.usercode.errors.UserCodeLoadError: wheel 'x-1.0-cp27-cp27mu-linux_x86_64.whl' is for ...
    """
    parts = name.removesuffix(".whl").split("-")
    if not name.endswith(".whl") or len(parts) not in (5, 6):
        return
    pythons, abis = parts[-3].split("."), parts[-2].split(".")
    if not any(_fits(python, abi) for python in pythons for abi in abis):
        raise UserCodeLoadError(
            f"wheel {name!r} is for {parts[-3]}-{parts[-2]}, and this is Python {version_of_this()}; bring "
            "the wheel for the Python that the driver and the workers run"
        )


def _fits(python: str, abi: str) -> bool:
    found = _PYTHON.fullmatch(python)
    if found is None or int(found[2]) != sys.version_info.major:
        return False
    kind, minor, this = found[1], int(found[3] or 0), sys.version_info.minor
    if kind == "py":
        return abi == "none" and minor <= this
    if abi == "abi3":  # free-threaded interpreters have another layout of objects, and no stable one yet
        return minor <= this and "t" not in sys.abiflags
    return minor == this and abi in ("none", f"cp{version_of_this().replace('.', '')}")
