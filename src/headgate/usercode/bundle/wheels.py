"""What a wheel's name says of the interpreters and the machines that it is for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from packaging.tags import Tag, platform_tags, sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from headgate.usercode.bundle.packed_environments import version_of_this
from headgate.usercode.errors import UserCodeLoadError


def check_wheel(name: str) -> None:
    """See that a wheel is for this Python; what is no wheel, or not named as one, is left alone.

    Platforms are not compared: it is the workers' that counts, see :func:`check_platform`.

    Example:
        >>> check_wheel("attrs-24.2.0-py3-none-any.whl"), check_wheel("env.tar.gz")
        (None, None)
        >>> check_wheel("x-1.0-cp27-cp27mu-linux_x86_64.whl")
        Traceback (most recent call last):
        ...
        headgate.usercode.errors.UserCodeLoadError: wheel 'x-1.0-cp27-cp27mu-linux_x86_64.whl' is for ...
    """
    tags = _tags_of(name)
    if tags and not any((tag.interpreter, tag.abi) in _interpreters() for tag in tags):
        raise UserCodeLoadError(
            f"wheel {name!r} is for {_named(f'{tag.interpreter}-{tag.abi}' for tag in tags)}, and this is "
            f"Python {version_of_this()}; bring the wheel for the Python that the driver and the workers run"
        )


def check_platform(name: str) -> None:
    """See that a wheel is for this machine's system; what is no wheel, or not named as one, is left alone.

    Example:
        >>> check_platform("attrs-24.2.0-py3-none-any.whl")
        >>> check_platform("x-1.0-py3-none-cray_x1.whl")
        Traceback (most recent call last):
        ...
        headgate.usercode.errors.UserCodeLoadError: wheel 'x-1.0-py3-none-cray_x1.whl' is for cray_x1, and ...
    """
    tags = _tags_of(name)
    if tags and not any(tag in _here() for tag in tags):
        raise UserCodeLoadError(
            f"wheel {name!r} is for {_named(tag.platform for tag in tags)}, and this machine takes "
            f"{next(platform_tags())} and what is older; bring the wheel for the system that workers run on"
        )


def _tags_of(name: str) -> frozenset[Tag]:
    try:
        return parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return frozenset()


def _named(those: Iterable[str]) -> str:
    return ", ".join(sorted(set(those)))


@cache
def _here() -> frozenset[Tag]:
    return frozenset(sys_tags())


@cache
def _interpreters() -> frozenset[tuple[str, str]]:
    return frozenset((tag.interpreter, tag.abi) for tag in _here())
