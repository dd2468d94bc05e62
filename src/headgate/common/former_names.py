"""Declarations of the earlier names of stored fields (`alias`) and classes (`formerly`) after a rename."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headgate.common.errors import UsageError

C = TypeVar("C", bound=type)

FORMERLY: Final = "__headgate_formerly__"
"""The class attribute that :func:`formerly` sets."""


@dataclass(frozen=True, slots=True)
class Alias:
    """Marker that :func:`alias` puts into an annotation; it holds the earlier names of the field."""

    names: tuple[str, ...]


def alias(*names: str) -> object:
    """Declare a record field's earlier names, inside `Annotated`, so that state stored under them is read.

    Args:
        names: what the field was called before, one or more names.

    Raises:
        UsageError: no name is given, or one of them is not text or is empty.

    Example:
        >>> from dataclasses import dataclass
        >>> from typing import Annotated
        >>> import headgate as hg
        >>> @dataclass
        ... class Visit:
        ...     page: Annotated[str, hg.alias("url")]
    """
    return Alias(_checked("hg.alias", "url", names))


def formerly(*names: str) -> Callable[[C], C]:
    """Return a class decorator that declares a class's earlier names: state stored under them is still read.

    For classes of records, enumerations, and the snapshot classes of serializers; it returns the same class.

    Args:
        names: what the class was called before: module and name, with dots.

    Raises:
        UsageError: no name is given, or one of them is not text or is empty.

    Example:
        >>> import headgate as hg
        >>> @hg.formerly("shop.models.Visit")
        ... class PageView:
        ...     pass
    """
    checked = _checked("hg.formerly", "shop.models.Visit", names)

    def mark(cls: C) -> C:
        setattr(cls, FORMERLY, checked)
        return cls

    return mark


def former_names(cls: Any) -> tuple[str, ...]:
    """Return the earlier names that :func:`formerly` gave to this class itself, not its bases; () if none."""
    names: tuple[str, ...] = vars(cls).get(FORMERLY, ())
    return names


def _checked(function: str, example: str, names: tuple[Any, ...]) -> tuple[str, ...]:
    if not names or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"{function} got {names!r}; give it earlier names as text: {function}({example!r})")
    return names
