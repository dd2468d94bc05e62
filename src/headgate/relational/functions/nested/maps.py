"""Rules of maps: made, joined, looked into. A key comes once, and is never null."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import PlanError
from headgate.relational.functions.kernels import Truth, missing, per_row, refuse, with_arrays
from headgate.relational.functions.nested.ragged import (
    Lists,
    Places,
    firsts,
    list_array,
    lists_of,
    map_array,
    ranks_of,
)
from headgate.relational.functions.strings.dialect import common_pattern
from headgate.relational.resolved import Typed
from headgate.relational.rules import (
    Judge,
    Kernel,
    RowsFailed,
    Rule,
    Signature,
    Types,
    add,
    constant_of,
    converts_by_itself,
)
from headgate.relational.spark_types import common_type, list_of

FAMILY: Final = "collections"
_TEXT: Final = pa.string()
_BOOL: Final = pa.bool_()


def _checked(keys: pa.Array, items: pa.Array, lengths: Places, absent: Truth, kind: pa.DataType) -> pa.Array:
    refuse(pc.is_null(keys), "NULL_MAP_KEY", "a key of a map is null")
    if pa.types.is_floating(keys.type):
        keys = pc.add(keys, pa.scalar(0.0, keys.type))  # -0.0 becomes 0.0
    rows = np.repeat(np.arange(len(lengths)), lengths)
    again = ~firsts(rows, ranks_of(keys)[0])
    refuse(pa.array(again), "DUPLICATED_MAP_KEY", "a key comes twice in a map")
    return map_array(keys, items, lengths, absent, kind)


# -- made


def _map_judge(given: Types) -> Signature | None:
    if not given or len(given) % 2:
        return None
    key, item = (_common(given[start::2]) for start in (0, 1))
    if key is None or item is None or pa.types.is_nested(key) or pa.types.is_null(key):
        return None
    return Signature((key, item) * (len(given) // 2), pa.map_(key, item), nullable=False)


def _common(kinds: Types) -> pa.DataType | None:
    return reduce(lambda one, other: None if one is None else common_type(one, other), kinds[1:], kinds[0])


def _map(result: pa.DataType, *values: pa.Array) -> pa.Array:
    rows, pairs = len(values[0]), len(values) // 2
    order = pa.array(np.arange(rows * pairs).reshape(pairs, rows).T.ravel())
    keys, items = (pa.concat_arrays(list(values[start::2])).take(order) for start in (0, 1))
    return _checked(keys, items, np.full(rows, pairs, np.int64), np.zeros(rows, np.bool_), result)


def _arrays_judge(given: Types) -> Signature | None:
    if len(given) != 2 or not all(map(pa.types.is_list, given)) or pa.types.is_nested(given[0].value_type):
        return None
    return Signature(given, pa.map_(given[0].value_type, given[1].value_type))


def _from_arrays(result: pa.DataType, keys: pa.Array, items: pa.Array) -> pa.Array:
    absent = missing(keys, items)
    one, other = (_without(lists_of(each), absent) for each in (keys, items))
    if (one.lengths != other.lengths).any():
        raise RowsFailed("_LEGACY_ERROR_TEMP_2128", "arrays of keys and values have different lengths")
    return _checked(one.elements, other.elements, one.lengths, absent, result)


def _without(lists: Lists, absent: Truth) -> Lists:
    if not absent.any():
        return lists
    keep = pa.array(~absent[lists.rows])
    return Lists(lists.elements.filter(keep), np.where(absent, 0, lists.lengths), absent)


def _entries_judge(given: Types) -> Signature | None:
    if len(given) != 1 or not pa.types.is_list(given[0]) or not pa.types.is_struct(given[0].value_type):
        return None
    entry = given[0].value_type
    if entry.num_fields != 2 or pa.types.is_nested(entry[0].type):
        return None
    return Signature(given, pa.map_(entry[0].type, entry[1].type), nullable=True)


def _from_entries(result: pa.DataType, values: pa.Array) -> pa.Array:
    lists = lists_of(values)
    # An entry that is null makes the map null.
    broken = np.bincount(lists.rows[missing(lists.elements)], minlength=len(values)) > 0
    lists = _without(lists, lists.absent | broken)
    keys, items = (pc.struct_field(lists.elements, [place]) for place in (0, 1))
    return _checked(keys, items, lists.lengths, lists.absent, result)


def _concat_judge(given: Types) -> Signature | None:
    known = bool(given) and all(kind == given[0] for kind in given) and pa.types.is_map(given[0])
    return Signature(given, given[0]) if known and not pa.types.is_nested(given[0].key_type) else None


def _concat(result: pa.DataType, *values: pa.Array) -> pa.Array:
    absent = missing(*values)
    parts = [_without(lists_of(each), absent) for each in values]
    rows = np.concatenate([part.rows for part in parts])
    entries = pa.concat_arrays([part.elements for part in parts]).take(
        pa.array(np.argsort(rows, kind="stable"))
    )
    lengths: Places = np.sum([part.lengths for part in parts], axis=0)
    return _checked(
        pc.struct_field(entries, "key"), pc.struct_field(entries, "value"), lengths, absent, result
    )


# -- looked into


def _one_map(part: str) -> Judge:
    def judge(given: Types) -> Signature | None:
        if len(given) != 1 or not pa.types.is_map(given[0]):
            return None
        key, item = given[0].key_type, given[0].item_type
        entry = pa.struct([pa.field("key", key, nullable=False), pa.field("value", item)])
        return Signature(given, list_of({"key": key, "value": item, "": entry}[part]))

    return judge


def _part(part: str) -> Kernel:
    def kernel(result: pa.DataType, values: pa.Array) -> pa.Array:
        lists = lists_of(values)
        elements = (
            pc.struct_field(lists.elements, part) if part else pc.cast(lists.elements, result.value_type)
        )
        return list_array(elements, lists.lengths, lists.absent, result)

    return with_arrays(kernel)


def _key_judge(given: Types) -> Signature | None:
    if len(given) != 2 or not pa.types.is_map(given[0]) or pa.types.is_nested(given[0].key_type):
        return None
    if pa.types.is_null(given[1]) or not converts_by_itself(given[1], given[0].key_type):
        return None
    return Signature((given[0], given[0].key_type), _BOOL)


def _contains_key(result: pa.DataType, values: pa.Array, keys: pa.Array) -> pa.Array:
    lists = lists_of(values)
    ranks, wanted = ranks_of(pc.struct_field(lists.elements, "key"), keys)
    found = np.bincount(lists.rows[ranks == wanted[lists.rows]], minlength=len(values)) > 0
    return pa.array(found, result, mask=missing(values, keys))


# -- from texts


def _texts_judge(given: Types) -> Signature | None:
    fits = 1 <= len(given) <= 3 and all(converts_by_itself(kind, _TEXT) for kind in given)
    return Signature((_TEXT,) * len(given), pa.map_(_TEXT, _TEXT)) if fits else None


def _plain_delimiters(found: Signature, arguments: Sequence[Typed]) -> Signature:
    for place in range(1, len(arguments)):
        delimiter = constant_of(arguments, place, "a delimiter").as_py()
        if delimiter is not None and (not delimiter or common_pattern(delimiter).literal is None):
            raise PlanError(f"the delimiter {delimiter!r} is a pattern; str_to_map() takes plain texts here")
    return found


def _pairs(text: str, between: str = ",", within: str = ":") -> list[tuple[str, str | None]]:
    between, within = (common_pattern(each).literal or each for each in (between, within))
    found: dict[str, str | None] = {}
    for piece in text.split(between):
        key, mark, value = piece.partition(within)
        if key in found:
            raise RowsFailed("DUPLICATED_MAP_KEY", f"the key {key!r} comes twice")
        found[key] = value if mark else None
    return list(found.items())


def _register() -> None:
    takes = "keys and values, in turn"
    add(Rule("map", FAMILY, _map_judge, with_arrays(_map), takes, fails=True))
    arrays = with_arrays(_from_arrays)
    add(
        Rule(
            "map_from_arrays", FAMILY, _arrays_judge, arrays, "an array of keys and one of values", fails=True
        )
    )
    entries = with_arrays(_from_entries)
    add(
        Rule(
            "map_from_entries",
            FAMILY,
            _entries_judge,
            entries,
            "an array of structs of two fields",
            fails=True,
        )
    )
    add(Rule("map_concat", FAMILY, _concat_judge, with_arrays(_concat), "maps of one type", fails=True))
    for name, part in (("map_keys", "key"), ("map_values", "value"), ("map_entries", "")):
        add(Rule(name, FAMILY, _one_map(part), _part(part), "a map"))
    add(Rule("map_contains_key", FAMILY, _key_judge, with_arrays(_contains_key), "a map and a key"))
    takes = "a text, and what divides its pairs, and keys from values, or nothing"
    kernel = per_row(_pairs)
    add(Rule("str_to_map", FAMILY, _texts_judge, kernel, takes, fails=True, refine=_plain_delimiters))


_register()
