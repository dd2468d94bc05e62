"""Codecs (:class:`Form`) of list, tuple, set, frozenset and dict, made from the codecs of their parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from headgate.common.hints import Hint
from headgate.serde.codecs.primitives import exactly
from headgate.serde.codecs.type_codec import Convert, Form, copier, describe, keep

V = TypeVar("V")

DIRECT_KEYS: Final = frozenset({"str", "int", "bytes"})
"""Kinds of dict keys that a msgpack map holds; dicts with other keys are stored as pairs."""

_SEQUENCES: Final[dict[type, str]] = {list: "list", set: "set", frozenset: "frozenset", tuple: "tuple_of"}


def sequence_form(cls: type, element: Form) -> Form:
    """Return the codec of ``list[X]``, ``set[X]``, ``frozenset[X]`` or ``tuple[X, ...]``."""
    name = f"{cls.__name__}[{element.name}{', ...' if cls is tuple else ''}]"
    immutable = cls in (tuple, frozenset) and element.immutable
    return Form(
        name=name,
        description=describe(_SEQUENCES[cls], of=element.description),
        wire=_wire(cls, element),
        to_plain=exactly(cls, each(list, element.to_plain)),
        # In the tagged mode the elements come as the list that was written, whatever the class.
        from_plain=None if cls is list and element.from_plain is None else each(cls, element.from_plain),
        classes=frozenset({cls}),
        inner=(element,),
        immutable=immutable,
        copy=copier(immutable, element.immutable),
    )


def _wire(cls: type, element: Form) -> Hint:
    # Elements that are still to be converted may not be hashable yet.
    if cls is list or element.from_plain is not None:
        return list[element.wire]  # type: ignore[name-defined]
    return tuple[element.wire, ...] if cls is tuple else cls[element.wire]  # type: ignore[name-defined, index]


def each(cls: Callable[[Iterable[V]], Collection[V]], convert: Convert | None) -> Convert:
    """Return a function that makes a `cls` of a sequence's elements, each converted (None: as they are)."""
    if convert is None:
        return lambda values: cls(values)
    if cls is list:
        return lambda values: [convert(value) for value in values]
    # Not by `map`, which would take a StopIteration of the program's code for the end of the values.
    return lambda values: cls([convert(value) for value in values])


def tuple_form(elements: list[Form]) -> Form:
    """Return the codec of a tuple of fixed length, as ``tuple[X, Y, Z]`` or ``tuple[()]``."""
    immutable = all(element.immutable for element in elements)
    return Form(
        name=f"tuple[{', '.join(element.name for element in elements) or '()'}]",
        description=describe("tuple", of=[element.description for element in elements]),
        wire=tuple[tuple(element.wire for element in elements)],  # type: ignore[misc]
        to_plain=exactly(tuple, row_converter([element.to_plain for element in elements])),
        from_plain=row_converter_or_none([element.from_plain for element in elements]),
        classes=frozenset({tuple}),
        inner=tuple(elements),
        immutable=immutable,
        copy=copier(immutable, False),
    )


def row_converter(converts: list[Convert | None]) -> Callable[[Sequence[V]], tuple[V, ...]]:
    """Return a function that makes a tuple of a row, each value converted by the function of its position.
    `converts` has a function, or None (the value stays), for each position. Another length: ValueError.
    """
    size = len(converts)
    todo = [(place, convert) for place, convert in enumerate(converts) if convert is not None]

    def checked_row(row: Sequence[V]) -> tuple[V, ...]:
        if len(row) != size:
            raise ValueError(f"got {len(row)} values, expected {size}")
        return tuple(row)

    def convert_row(row: Sequence[V]) -> tuple[V, ...]:
        if len(row) != size:
            raise ValueError(f"got {len(row)} values, expected {size}")
        values = list(row)
        for place, convert in todo:
            values[place] = convert(values[place])
        return tuple(values)

    return convert_row if todo else checked_row


def row_converter_or_none(converts: list[Convert | None]) -> Convert | None:
    return row_converter(converts) if any(convert is not None for convert in converts) else None


def apply_each(converts: Mapping[str, Convert | None], entries: Mapping[str, V]) -> dict[str, V]:
    """Return entries, each value converted by its name's function (None: as it is); KeyError: no function."""
    made = {}
    for name, value in entries.items():
        convert = converts[name]
        made[name] = value if convert is None else convert(value)
    return made


def dict_form(key: Form, value: Form) -> Form:
    """Return the codec of ``dict[K, V]``: a msgpack map for str, int and bytes keys, else a list of pairs."""
    direct = key.description["kind"] in DIRECT_KEYS
    return Form(
        name=f"dict[{key.name}, {value.name}]",
        description=describe("dict", key=key.description, value=value.description),
        wire=dict_wire(direct, key.wire, value.wire),
        to_plain=exactly(dict, _dict_to_plain(direct, key, value)),
        from_plain=_dict_from_plain(direct, key, value),
        classes=frozenset({dict}),
        inner=(key, value),
        immutable=False,
        copy=copier(False, key.immutable and value.immutable),
    )


def dict_wire(direct: bool, key: Hint, value: Hint) -> Hint:
    return dict[key, value] if direct else list[tuple[key, value]]  # type: ignore[valid-type]


def _dict_to_plain(direct: bool, key: Form, value: Form) -> Convert:
    convert = value.to_plain
    if direct:
        return keep if convert is None else lambda entries: {k: convert(v) for k, v in entries.items()}
    of_key, of_value = key.to_plain or keep, value.to_plain or keep
    return lambda entries: [(of_key(k), of_value(v)) for k, v in entries.items()]


def _dict_from_plain(direct: bool, key: Form, value: Form) -> Convert | None:
    convert = value.from_plain
    if direct:
        return None if convert is None else lambda entries: {k: convert(v) for k, v in entries.items()}
    of_key, of_value = key.from_plain, value.from_plain or keep
    if of_key is None:
        return lambda entries: {k: of_value(v) for k, v in entries}
    return lambda entries: {of_key(k): of_value(v) for k, v in entries}
