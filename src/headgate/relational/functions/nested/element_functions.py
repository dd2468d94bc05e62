"""Rules of arrays: made, measured, searched, ordered; elements removed and looked up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import missing, numbers, refuse, with_arrays
from headgate.relational.functions.nested.ragged import (
    NOTHING,
    Lists,
    Places,
    firsts,
    kept,
    list_array,
    lists_of,
    plain_zeros,
    ranks_of,
    taken,
)
from headgate.relational.rules import Judge, Kernel, Rule, Signature, Types, add, converts_by_itself
from headgate.relational.spark_types import common_type, is_numeric, list_of

FAMILY: Final = "collections"
_INT: Final = pa.int32()
_BOOL: Final = pa.bool_()


# -- types


def one_array(
    result: Callable[[pa.DataType], pa.DataType], *more: pa.DataType, ordered: bool = False
) -> Judge:
    """Return a judge of functions that take an array, and then `more` arguments.

    Args:
        result: gives the type of the function's result for the array's type.
        *more: types of the arguments after the array; what Spark converts to them by itself fits.
        ordered: whether arrays of nested elements, which have no order, are refused.
    """

    def judge(given: Types) -> Signature | None:
        if len(given) != 1 + len(more) or not pa.types.is_list(given[0]):
            return None
        if (ordered and pa.types.is_nested(given[0].value_type)) or not all(
            map(converts_by_itself, given[1:], more)
        ):
            return None
        return Signature((given[0], *more), result(given[0]))

    return judge


def same(kind: pa.DataType) -> pa.DataType:
    return kind


def _with_element(
    result: Callable[[pa.DataType], pa.DataType], ordered: bool = True, first: bool = True
) -> Judge:
    def judge(given: Types) -> Signature | None:
        if len(given) != 2 or not pa.types.is_list(given[0]):
            return None
        kind = common_type(given[0].value_type, given[1])
        if kind is None or (ordered and (pa.types.is_nested(kind) or pa.types.is_null(given[1]))):
            return None
        array = list_of(kind)
        return Signature((array, kind), result(array), None if first else False)

    return judge


def _of_element(given: Types) -> Signature | None:
    found = one_array(lambda kind: kind.value_type, ordered=True)(given)
    return found and found._replace(nullable=True)


# -- made and measured


def _made(given: Types) -> Signature | None:
    kind = reduce(
        lambda one, other: None if one is None else common_type(one, other), given[1:], (given or (None,))[0]
    )
    return None if kind is None else Signature((kind,) * len(given), list_of(kind), nullable=False)


def _array(result: pa.DataType, *values: pa.Array) -> pa.Array:
    rows, count = len(values[0]), len(values)
    places = np.arange(rows * count).reshape(count, rows).T.ravel()
    elements = pa.concat_arrays(list(values)).take(pa.array(places))
    return list_array(elements, np.full(rows, count, np.int64), np.zeros(rows, np.bool_), result)


def _repeat_judge(given: Types) -> Signature | None:
    if len(given) != 2 or not (is_numeric(given[1]) or pa.types.is_null(given[1])):
        return None
    return Signature((given[0], _INT), list_of(given[0]))


def _repeat(result: pa.DataType, values: pa.Array, times: pa.Array) -> pa.Array:
    lengths = np.maximum(numbers(times).astype(np.int64), 0)
    places = np.repeat(np.arange(len(values)), lengths)
    return list_array(values.take(pa.array(places)), lengths, missing(times), result)


def _sized(given: Types) -> Signature | None:
    known = len(given) == 1 and (pa.types.is_list(given[0]) or pa.types.is_map(given[0]))
    return Signature(given, _INT) if known else None


def _size(result: pa.DataType, values: pa.Array) -> pa.Array:
    lists = lists_of(values)
    return pa.array(lists.lengths.astype(np.int32), result, mask=lists.absent)


# -- searched


def _found(
    values: pa.Array, wanted: pa.Array
) -> tuple[Lists, np.ndarray[tuple[int, ...], np.dtype[np.bool_]], Places]:
    lists = lists_of(values)
    ranks, asked = ranks_of(lists.elements, wanted)
    return lists, (ranks == asked[lists.rows]) & (ranks != NOTHING), ranks


def _count(rows: Places, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], size: int) -> Places:
    return np.bincount(rows[chosen], minlength=size).astype(np.int64)


def _contains(result: pa.DataType, values: pa.Array, wanted: pa.Array) -> pa.Array:
    lists, hits, ranks = _found(values, wanted)
    found = _count(lists.rows, hits, len(values)) > 0
    # An element that is null could be what is wanted.
    doubtful = (_count(lists.rows, ranks == NOTHING, len(values)) > 0) & ~found
    return pa.array(found, result, mask=doubtful | missing(values, wanted))


def _position(result: pa.DataType, values: pa.Array, wanted: pa.Array) -> pa.Array:
    lists, hits, _ = _found(values, wanted)
    found = np.zeros(len(values), np.int64)
    # Later assignments win: from the last hit to the first.
    found[lists.rows[hits][::-1]] = lists.places[hits][::-1] + 1
    return pa.array(found, result, mask=missing(values, wanted))


def _remove(result: pa.DataType, values: pa.Array, wanted: pa.Array) -> pa.Array:
    lists, hits, _ = _found(values, wanted)
    absent = missing(values, wanted)
    return kept(lists._replace(absent=absent), ~hits & ~absent[lists.rows], result)


def _extreme(sign: int, _result: pa.DataType, values: pa.Array) -> pa.Array:
    # The first of equal ones; null where no element is left.
    lists = lists_of(values)
    (ranks,) = ranks_of(lists.elements)
    usable = np.flatnonzero(ranks != NOTHING)
    order = usable[np.lexsort((usable, -sign * ranks[usable], lists.rows[usable]))]
    rows, first = np.unique(lists.rows[order], return_index=True)
    places = np.full(len(values), NOTHING)
    places[rows] = order[first]
    return taken(lists.elements, places)


# -- ordered


def _sort(result: pa.DataType, values: pa.Array, ascending: pa.Array, nulls_last: bool = False) -> pa.Array:
    lists = lists_of(values)
    (ranks,) = ranks_of(lists.elements)
    upwards = numbers(ascending).astype(np.bool_)[lists.rows]
    if nulls_last:
        ranks = np.where(ranks == NOTHING, len(ranks), ranks)
    order = np.lexsort((np.where(upwards, ranks, -ranks), lists.rows))
    absent = missing(values, ascending)
    order = order[~absent[lists.rows[order]]]
    lengths = np.where(absent, 0, lists.lengths)
    return list_array(lists.elements.take(pa.array(order)), lengths, absent, result)


def _sort_array(result: pa.DataType, values: pa.Array, *ascending: pa.Array) -> pa.Array:
    return _sort(result, values, ascending[0] if ascending else pa.repeat(pa.scalar(True), len(values)))


def _array_sort(result: pa.DataType, values: pa.Array) -> pa.Array:
    return _sort(result, values, pa.repeat(pa.scalar(True), len(values)), nulls_last=True)


def reversed_lists(result: pa.DataType, values: pa.Array) -> pa.Array:
    """Return arrays with their elements in the opposite order."""
    lists = lists_of(values)
    order = (lists.starts + lists.lengths - 1)[lists.rows] - lists.places
    return list_array(lists.elements.take(pa.array(order)), lists.lengths, lists.absent, result)


def _distinct(result: pa.DataType, values: pa.Array) -> pa.Array:
    lists = plain_zeros(lists_of(values))
    return kept(lists, firsts(lists.rows, ranks_of(lists.elements)[0]), result)


def _compact(result: pa.DataType, values: pa.Array) -> pa.Array:
    lists = lists_of(values)
    return kept(lists, ~missing(lists.elements), result)


# -- looked up


def _at_judge(given: Types) -> Signature | None:
    if len(given) != 2:
        return None
    if pa.types.is_map(given[0]):
        kind = given[0]
        return (
            Signature((kind, kind.key_type), kind.item_type, nullable=True)
            if _is_key(given[1], kind)
            else None
        )
    return _get_judge(given)


def _is_key(given: pa.DataType, kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind.key_type) and converts_by_itself(given, kind.key_type)


def _get_judge(given: Types) -> Signature | None:
    found = one_array(lambda kind: kind.value_type, _INT)(given)
    return found and found._replace(nullable=True)


def _element(
    values: pa.Array, places: Places, absent: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
) -> pa.Array:
    lists = lists_of(values)
    inside = (places >= 0) & (places < lists.lengths) & ~absent
    return taken(lists.elements, np.where(inside, lists.starts + places, NOTHING))


def _get(_result: pa.DataType, values: pa.Array, places: pa.Array) -> pa.Array:
    return _element(values, numbers(places).astype(np.int64), missing(values, places))


def value_at_key(values: pa.Array, keys: pa.Array) -> pa.Array:
    """Return for each row the value that its map has for its key in `keys`; null where there is none.
    `values` are maps, one per row, whose keys are not nested; null where the map or the key is null.
    """
    lists = lists_of(values)
    ranks, wanted = ranks_of(pc.struct_field(lists.elements, "key"), keys)
    hits = np.flatnonzero((ranks == wanted[lists.rows]) & (ranks != NOTHING))
    places = np.full(len(values), NOTHING)
    places[lists.rows[hits]] = hits
    return taken(pc.struct_field(lists.elements, "value"), places)


def _element_at(strict: bool, _result: pa.DataType, values: pa.Array, places: pa.Array) -> pa.Array:
    if pa.types.is_map(values.type):
        return value_at_key(values, places)
    absent = missing(values, places)
    plain = numbers(places).astype(np.int64)
    refuse(
        pa.array((plain == 0) & ~absent),
        "INVALID_INDEX_OF_ZERO",
        "elements are counted from 1, or from -1 backwards",
    )
    lengths = lists_of(values).lengths
    if strict:
        outside = (np.abs(plain) > lengths) & ~absent
        why = "an array has no element at a place; try_element_at gives null"
        refuse(pa.array(outside), "INVALID_ARRAY_INDEX_IN_ELEMENT_AT", why)
    return _element(values, np.where(plain > 0, plain - 1, plain + lengths), absent)


def _with_sorting(given: Types) -> Signature | None:
    found = one_array(same, ordered=True)(given[:1])
    if found is None or len(given) == 1:
        return found
    return one_array(same, _BOOL, ordered=True)(given)


def _add(name: str, judge: Judge, kernel: Kernel, takes: str = "an array", fails: bool = False) -> None:
    add(Rule(name, FAMILY, judge, with_arrays(kernel), takes, fails))


def _register() -> None:
    _add("array", _made, _array, "values of a type in common")
    _add("array_repeat", _repeat_judge, _repeat, "a value, and how often it comes")
    _add("size", _sized, _size, "an array or a map")
    _add("array_size", one_array(lambda _: _INT), _size)
    element = "an array and a value of its elements' type"
    _add("array_contains", _with_element(lambda _: _BOOL), _contains, element)
    _add("array_position", _with_element(lambda _: pa.int64()), _position, element)
    _add("array_remove", _with_element(same), _remove, element)
    _add("array_max", _of_element, partial(_extreme, 1))
    _add("array_min", _of_element, partial(_extreme, -1))
    _add("sort_array", _with_sorting, _sort_array, "an array, and whether upwards or nothing")
    _add("array_sort", one_array(same, ordered=True), _array_sort)
    _add("array_distinct", one_array(same, ordered=True), _distinct)
    _add("array_compact", one_array(same), _compact)
    place = "an array and a place"
    _add("get", _get_judge, _get, f"{place} from 0")
    strict, lenient = partial(_element_at, True), partial(_element_at, False)
    _add("element_at", _at_judge, strict, f"{place} from 1, or a map and a key", fails=True)
    _add("try_element_at", _at_judge, lenient, f"{place} from 1, or a map and a key", fails=True)


_register()
