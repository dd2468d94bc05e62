"""Types of decoded JSON and MessagePack data, and functions that take parts out of it by their type.

The parts of decoded data are of any shape. A reader takes each part out as what it expects, and a part of
another type raises `TypeError`, which every reader of stored data turns into an error that names the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
    Plain: TypeAlias = "bool | int | float | str | bytes | Sequence[Plain] | Mapping[str, Plain] | None"
    Description: TypeAlias = Mapping[str, Plain]
else:  # msgspec resolves the annotations of what it decodes, and knows no type that contains itself
    Json = bool | int | float | str | list | dict | None
    Plain, Description = Any, Mapping[str, Any]

"""`Json` is what decoding JSON text gives; `Plain` what MessagePack holds without a schema.

A `Description` is what a serializer stores about the values it writes: "kind", "version" and the parameters
of the kind.
"""


def text_in(data: Mapping[str, Plain], name: str) -> str:
    """Return `data[name]`, which must be text: else TypeError; KeyError if there is none.

    Example:
        >>> text_in({"kind": "int"}, "kind")
        'int'
        >>> text_in({"kind": 1}, "kind")
        Traceback (most recent call last):
            ...
        TypeError: kind is of type int; expected text
    """
    found = data[name]
    if not isinstance(found, str):
        raise TypeError(f"{name} is of type {type(found).__name__}; expected text")
    return found


def texts_in(data: Mapping[str, Plain], name: str) -> list[str]:
    """Return `data[name]`, which must be a list of texts: else TypeError; KeyError if there is none.

    Example:
        >>> texts_in({"members": ["RED", "BLUE"]}, "members")
        ['RED', 'BLUE']
    """
    found = _list(data, name)
    texts = [one for one in found if isinstance(one, str)]
    if len(texts) != len(found):
        raise TypeError(f"{name} holds something else than text")
    return texts


def mapping_in(data: Mapping[str, Plain], name: str) -> Mapping[str, Plain]:
    """Return `data[name]`, a mapping such as a description of list elements; else TypeError, or KeyError.

    Example:
        >>> mapping_in({"of": {"kind": "int"}}, "of")
        {'kind': 'int'}
    """
    return as_mapping(data[name])


def mappings_in(data: Mapping[str, Plain], name: str) -> list[Mapping[str, Plain]]:
    """Return `data[name]`, a list of mappings, as of the parts of a tuple; else TypeError, or KeyError.

    Example:
        >>> mappings_in({"of": [{"kind": "int"}]}, "of")
        [{'kind': 'int'}]
    """
    return [as_mapping(one) for one in _list(data, name)]


def named_mappings_in(data: Mapping[str, Plain], name: str) -> dict[str, Mapping[str, Plain]]:
    """Return `data[name]`, name -> mapping, as of the fields of a record; else TypeError, or KeyError.

    Example:
        >>> named_mappings_in({"fields": {"x": {"kind": "int"}}}, "fields")
        {'x': {'kind': 'int'}}
    """
    return {inner: as_mapping(one) for inner, one in as_mapping(data[name]).items()}


def as_mapping(data: Plain) -> Mapping[str, Plain]:
    if not isinstance(data, Mapping):
        raise TypeError(f"got {type(data).__name__}; expected a mapping")
    return data


def _list(data: Mapping[str, Plain], name: str) -> Sequence[Plain]:
    found = data[name]
    if not isinstance(found, list | tuple):
        raise TypeError(f"{name} is of type {type(found).__name__}; expected a list")
    return found
