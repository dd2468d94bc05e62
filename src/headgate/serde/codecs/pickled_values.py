"""The form of values that a program stores as pickle by name: ``Annotated[T, hg.pickled]``."""

from __future__ import annotations

import sys
import types
from typing import Any, Final, TypeVar, get_origin

from headgate.common.errors import UsageError
from headgate.common.files.durable import crc32
from headgate.common.plain_data import Description, text_in
from headgate.serde.codecs.pickled import dump_value, load_value
from headgate.serde.codecs.record_classes import logical_name
from headgate.serde.codecs.type_codec import Annotation, Form, copier, describe
from headgate.serde.descriptions import kinds_in
from headgate.serde.evolution.readings import Reading, Refused

T = TypeVar("T")

PICKLE: Final = "pickle"
"""The kind in descriptions."""


def pickled_form(hint: Annotation) -> Form:
    """The form of ``Annotated[hint, hg.pickled]``: values of a class and of its subclasses."""
    cls: Any = object if hint is Any else get_origin(hint) or hint
    if not isinstance(cls, type) or cls is types.UnionType:
        raise UsageError(
            f"hg.pickled marks {hint}, which is no class; mark the class itself, as in "
            "Annotated[Model, hg.pickled] | None"
        )
    name = "Any" if hint is Any else logical_name(cls)

    def to_plain(value: T) -> tuple[int, bytes]:
        if not isinstance(value, cls):
            raise TypeError(f"got {type(value).__qualname__}, expected {name}")
        data = dump_value(value, cls)
        return crc32(data), data

    def from_plain(plain: tuple[int, bytes]) -> Any:
        checksum, data = plain
        if type(data) is not bytes or crc32(data) != checksum:
            raise ValueError("the checksum of a pickled value is wrong")
        value = load_value(data, cls)
        if not isinstance(value, cls):
            raise ValueError(f"a pickled {type(value).__qualname__} was found, expected {name}")
        return value

    return Form(
        name=f"pickled {cls.__qualname__ if hint is not Any else 'Any'}",
        description=describe(PICKLE, name=name, python=_python()),
        wire=tuple[int, bytes],
        to_plain=to_plain,
        from_plain=from_plain,
        classes=frozenset() if hint is Any else frozenset({cls}),
        immutable=False,
        copy=copier(False, False),
    )


def evolve_pickled(stored: Description, new: Form) -> Reading:
    """Pickled values are read as they were written, or not at all."""
    now, was = new.description, text_in(stored, "name")
    if now["kind"] != PICKLE:
        raise Refused(f"was pickled {was} and is {new.name}; pickled values do not evolve")
    if was != now["name"]:
        raise Refused(f"was pickled {was} and is pickled {now['name']!s}; pickled values do not evolve")
    python = text_in(stored, "python")
    raise Refused(
        f"was pickled by Python {python} and this is {now['python']!s}; pickled values do not cross "
        f"versions of Python, restore with {python}"
    )


def holds_pickle(description: Description) -> bool:
    """Whether values of a description are pickled, or something in them is."""
    return PICKLE in kinds_in(description)


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
