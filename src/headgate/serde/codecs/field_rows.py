"""Encodes records of a class as rows of their fields' values: the fast way between two processes.

It is taken where every value is a scalar: msgpack holds scalars losslessly, whatever the annotations say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import starmap
from operator import attrgetter
from typing import Any, TypeVar

from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.serde.serializer import Buffer

T = TypeVar("T")

_codec = DynamicSerializer()
Rows = list[tuple[Any, ...]]
Make = Callable[[Rows], list[Any]]


class FieldRows:
    """Encoder of one class's records as rows of the fields `names`; `make` makes records of rows again."""

    def __init__(self, names: Sequence[str], make: Make) -> None:
        self._read, self._make = _reader(names), make

    def encode(self, records: Sequence[T]) -> bytes | None:
        """Return the bytes of records of the class (unchecked); None if a field is unset or no scalar."""
        try:
            return _codec.encode_scalars(self._read(records))
        except AttributeError:
            return None

    def decode(self, data: Buffer, count: int) -> list[T]:
        """Return the `count` records whose bytes :meth:`encode` made; StorageError for other bytes."""
        return self._make(_codec.decode_many(data, count))


def field_rows(cls: type) -> FieldRows | None:
    """Return the converter of a dataclass, attrs class, NamedTuple or ``msgspec.Struct``, else None.
    None also for a struct that has keyword-only fields or a `__post_init__`.
    """
    if dataclasses.is_dataclass(cls):
        return FieldRows(*_attributes(cls, [field.name for field in dataclasses.fields(cls)]))
    if hasattr(cls, "__attrs_attrs__"):
        return FieldRows(*_attributes(cls, [attribute.name for attribute in cls.__attrs_attrs__]))
    if hasattr(cls, "__struct_fields__") and hasattr(cls, "__struct_config__"):
        positional = getattr(cls, "__match_args__", ())
        if tuple(positional) != cls.__struct_fields__ or hasattr(cls, "__post_init__"):
            return None  # its maker takes keywords, or would run the program's code again
        return FieldRows(cls.__struct_fields__, lambda rows: list(starmap(cls, rows)))
    if issubclass(cls, tuple) and hasattr(cls, "_make"):
        fields: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
        return FieldRows(fields, lambda rows: list(map(cls._make, rows)))
    return None


def _reader(names: Sequence[str]) -> Callable[[Sequence[T]], Rows]:
    if not names:
        return lambda records: [()] * len(records)
    get = attrgetter(*names)
    if len(names) > 1:
        return lambda records: list(map(get, records))
    return lambda records: list(zip(map(get, records)))


def _attributes(cls: Any, names: list[str]) -> tuple[list[str], Make]:
    """Return the names, and a generated function that makes objects of rows without calling `__init__`."""
    if not names:
        return names, lambda rows: [cls.__new__(cls) for _ in rows]
    assign = "one.{0} = field_{0}" if cls.__setattr__ is object.__setattr__ else "put(one, {0!r}, field_{0})"
    lines = [
        "def make(rows):",
        "    made = []",
        f"    for {', '.join(f'field_{name}' for name in names)}, in rows:",
        "        one = new(cls)",
        *(f"        {assign.format(name)}" for name in names),
        "        made.append(one)",
        "    return made",
    ]
    source = "\n".join(lines)
    scope: dict[str, Any] = {"new": cls.__new__, "cls": cls, "put": object.__setattr__}
    exec(compile(source, f"<fields of {cls.__qualname__}>", "exec"), scope)  # noqa: S102 - names of fields only
    return names, scope["make"]
