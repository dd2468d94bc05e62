"""Rules of arrays put together or changed: sets, joined and nested arrays, elements put in, sequences."""

from __future__ import annotations

from functools import partial, reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import Truth, missing, numbers, refuse, with_arrays
from headgate.relational.functions.nested.element_functions import one_array, reversed_lists
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
from headgate.relational.functions.strings.parts import text_or_bytes
from headgate.relational.resolved import Values
from headgate.relational.rules import (
    Judge,
    Kernel,
    RowsFailed,
    Rule,
    Signature,
    Types,
    add,
    converts_by_itself,
)
from headgate.relational.spark_types import common_type, is_integer, is_numeric, list_of

FAMILY: Final = "collections"
_INT: Final = pa.int32()
_TEXT: Final = pa.string()
_BOOL: Final = pa.bool_()
_LENGTH_MAX: Final = 2**31 - 16


# -- sets


def _pair(result: pa.DataType | None = None) -> Judge:
    def judge(given: Types) -> Signature | None:
        if len(given) != 2 or not all(map(pa.types.is_list, given)):
            return None
        kind = common_type(given[0].value_type, given[1].value_type)
        if kind is None or pa.types.is_nested(kind):
            return None
        array = list_of(kind)
        return Signature((array, array), result or array)

    return judge


def _joined(*parts: Lists) -> Lists:
    # The arrays come one after the other in each row, which is null where one of them is.
    absent: Truth = np.logical_or.reduce([part.absent for part in parts])
    pool = pa.concat_arrays([part.elements for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows, kind="stable")
    order = order[~absent[rows[order]]]
    lengths = np.where(absent, 0, sum(part.lengths for part in parts))
    return Lists(pool.take(pa.array(order)), lengths, absent)


def _union(result: pa.DataType, *values: pa.Array) -> pa.Array:
    lists = plain_zeros(_joined(*map(lists_of, values)))
    return kept(lists, firsts(lists.rows, ranks_of(lists.elements)[0]), result)


def _members(one: Lists, other: Lists) -> tuple[Truth, Places]:
    ranks, others = ranks_of(one.elements, other.elements)
    size = max(int(ranks.max(initial=0)), int(others.max(initial=0))) + 2
    return np.isin(one.rows * size + ranks + 1, other.rows * size + others + 1), ranks


def _chosen(inside: bool, result: pa.DataType, *values: pa.Array) -> pa.Array:
    # The distinct elements of the first array that are (`inside`), or are not, in the second one.
    one, other = plain_zeros(lists_of(values[0])), lists_of(values[1])
    member, ranks = _members(one, other)
    absent = missing(*values)
    keep = (member == inside) & firsts(one.rows, ranks) & ~absent[one.rows]
    return kept(one._replace(absent=absent), keep, result)


def _overlap(result: pa.DataType, *values: pa.Array) -> pa.Array:
    one, other = map(lists_of, values)
    member, ranks = _members(one, other)
    size = len(values[0])
    found = np.bincount(one.rows[member & (ranks != NOTHING)], minlength=size) > 0
    nulls = [np.bincount(each.rows[missing(each.elements)], minlength=size) > 0 for each in (one, other)]
    # A null could be an element that both have.
    doubtful = ~found & (nulls[0] | nulls[1]) & (one.lengths > 0) & (other.lengths > 0)
    return pa.array(found, result, mask=doubtful | missing(*values))


# -- joined


def _concat_judge(given: Types) -> Signature | None:
    if given and pa.types.is_list(given[0]):
        kinds = [kind.value_type if pa.types.is_list(kind) else None for kind in given]
        kind = reduce(lambda one, other: None if None in (one, other) else common_type(one, other), kinds)
        return None if kind is None else Signature((list_of(kind),) * len(given), list_of(kind))
    raw = bool(given) and all(map(pa.types.is_binary, given))
    kind = pa.binary() if raw else _TEXT
    return (
        Signature((kind,) * len(given), kind)
        if all(converts_by_itself(each, kind) for each in given)
        else None
    )


def _concat(result: pa.DataType, *values: Values) -> Values:
    if not values:
        return pa.scalar("", result)
    if pa.types.is_list(result):
        return with_arrays(_concat_lists)(result, *values)
    empty = pa.scalar(b"" if pa.types.is_binary(result) else "", result)
    return pc.binary_join_element_wise(*values, empty)


def _concat_lists(result: pa.DataType, *values: pa.Array) -> pa.Array:
    lists = _joined(*map(lists_of, values))
    return list_array(lists.elements, lists.lengths, lists.absent, result)


def _reverse_judge(given: Types) -> Signature | None:
    return Signature(given, given[0]) if len(given) == 1 and pa.types.is_list(given[0]) else _one_text(given)


_one_text: Final = text_or_bytes()


def _reverse(result: pa.DataType, values: Values) -> Values:
    return (
        with_arrays(reversed_lists)(result, values) if pa.types.is_list(result) else pc.utf8_reverse(values)
    )


def _flat_judge(given: Types) -> Signature | None:
    nested = len(given) == 1 and pa.types.is_list(given[0]) and pa.types.is_list(given[0].value_type)
    return Signature(given, given[0].value_type, nullable=True) if nested else None


def _flatten(result: pa.DataType, values: pa.Array) -> pa.Array:
    outer = lists_of(values)
    inner = lists_of(outer.elements)
    size = len(values)
    absent = outer.absent | (np.bincount(outer.rows[inner.absent], minlength=size) > 0)
    rows = outer.rows[inner.rows]
    lengths = np.bincount(rows[~absent[rows]], minlength=size).astype(np.int64)
    return list_array(inner.elements.filter(pa.array(~absent[rows])), lengths, absent, result)


def _join_judge(given: Types) -> Signature | None:
    if len(given) not in (2, 3) or not pa.types.is_list(given[0]):
        return None
    array = list_of(_TEXT)
    fits = given[0].value_type == _TEXT and all(converts_by_itself(kind, _TEXT) for kind in given[1:])
    return Signature((array, *(_TEXT for _ in given[1:])), _TEXT) if fits else None


def _join(result: pa.DataType, values: pa.Array, delimiter: pa.Array, *null: pa.Array) -> pa.Array:
    lists = lists_of(values)
    if null:
        filled = pc.coalesce(lists.elements, null[0].take(pa.array(lists.rows)))
        lists = lists._replace(elements=filled)
    plain = kept(lists, ~missing(lists.elements), list_of(_TEXT))
    found = pc.binary_join(plain, delimiter)
    return pc.if_else(pa.array(missing(values, delimiter, *null)), pa.scalar(None, result), found)


# -- parts, and elements put in


def _slice(result: pa.DataType, values: pa.Array, start: pa.Array, length: pa.Array) -> pa.Array:
    absent = missing(values, start, length)
    lists = lists_of(values)
    first, size = (numbers(each).astype(np.int64) for each in (start, length))
    refuse(pa.array((first == 0) & ~absent), "INVALID_PARAMETER_VALUE.START", "elements are counted from 1")
    refuse(pa.array((size < 0) & ~absent), "INVALID_PARAMETER_VALUE.LENGTH", "a length is below 0")
    begin = np.where(first > 0, first - 1, first + lists.lengths)
    # What begins before the array has nothing of it.
    stop = np.where(begin < 0, begin, begin + size)
    inside = (lists.places >= begin[lists.rows]) & (lists.places < stop[lists.rows]) & ~absent[lists.rows]
    return kept(lists._replace(absent=absent), inside, result)


def _put_judge(places: int) -> Judge:
    def judge(given: Types) -> Signature | None:
        if len(given) != 2 + places or not pa.types.is_list(given[0]):
            return None
        kind = common_type(given[0].value_type, given[-1])
        if kind is None or not all(is_numeric(each) or pa.types.is_null(each) for each in given[1:-1]):
            return None
        return Signature((list_of(kind), *(_INT,) * places, kind), list_of(kind), nullable=True)

    return judge


def _put(last: bool, result: pa.DataType, values: pa.Array, items: pa.Array) -> pa.Array:
    array, size = lists_of(values), len(values)
    item = Lists(items, np.ones(size, np.int64), np.zeros(size, np.bool_))
    lists = _joined(*((array, item) if last else (item, array)))
    return list_array(lists.elements, lists.lengths, lists.absent, result)


def _insert(result: pa.DataType, values: pa.Array, asked: pa.Array, items: pa.Array) -> pa.Array:
    lists, absent = lists_of(values), missing(values, asked)
    wanted, starts = numbers(asked), lists.starts
    picks: list[int] = []
    lengths = np.zeros(len(values), np.int64)
    for row in np.flatnonzero(~absent):
        old = range(starts[row], starts[row] + lists.lengths[row])
        new = _with_item(old, int(wanted[row]), len(lists.elements) + int(row))
        picks += new
        lengths[row] = len(new)
    pool = pa.concat_arrays([lists.elements, items])
    return list_array(taken(pool, np.array(picks, np.int64)), lengths, absent, result)


def _with_item(old: range, asked: int, item: int) -> list[int]:
    # `asked` counts from 1 or -1; gaps become NOTHING.
    if asked == 0:
        raise RowsFailed("INVALID_INDEX_OF_ZERO", "elements are counted from 1, or from -1 backwards")
    size = len(old)
    if max(abs(asked), size + 1) > _LENGTH_MAX:
        raise RowsFailed("COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER", "an array would have too many elements")
    place = asked - 1 if asked > 0 else asked + size + 1
    if place < 0:
        return [item, *[NOTHING] * -place, *old]
    return [*old[:place], *[NOTHING] * (place - size), item, *old[place:]]


# -- sequences


def _sequence_judge(given: Types) -> Signature | None:
    if len(given) not in (2, 3) or not all(is_integer(kind) for kind in given):
        return None
    kind = reduce(lambda one, other: one if one.bit_width >= other.bit_width else other, given)
    return Signature((kind,) * len(given), list_of(kind))


def _sequence(result: pa.DataType, start: pa.Array, stop: pa.Array, *steps: pa.Array) -> pa.Array:
    absent = missing(start, stop, *steps)
    first, last = (numbers(each).astype(np.int64) for each in (start, stop))
    step = numbers(steps[0]).astype(np.int64) if steps else np.where(first <= last, 1, -1)
    right = ((step > 0) & (first <= last)) | ((step < 0) & (first >= last)) | ((step == 0) & (first == last))
    refuse(
        pa.array(~right & ~absent),
        "IllegalArgumentException",
        "a step leads away from the end of its sequence",
    )
    by = np.where(step == 0, 1, step)
    # As doubles, which do not wrap.
    size = np.where(absent, 0, (last.astype(np.float64) - first) / by)
    why = "a sequence would have too many elements"
    refuse(pa.array(size >= _LENGTH_MAX), "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER", why)
    lengths = np.where(absent, 0, (last - first) // by + 1)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(rows)) - (np.cumsum(lengths) - lengths)[rows]
    elements = first[rows] + places * step[rows]
    return list_array(pa.array(elements, result.value_type), lengths, absent, result)


def _add(name: str, judge: Judge, kernel: Kernel, takes: str, fails: bool = False) -> None:
    add(Rule(name, FAMILY, judge, with_arrays(kernel), takes, fails))


def _register() -> None:
    two = "two arrays of a type in common"
    _add("array_union", _pair(), _union, two)
    _add("array_intersect", _pair(), partial(_chosen, True), two)
    _add("array_except", _pair(), partial(_chosen, False), two)
    _add("arrays_overlap", _pair(_BOOL), _overlap, two)
    add(Rule("concat", FAMILY, _concat_judge, _concat, "texts, bytes or arrays"))
    add(Rule("reverse", FAMILY, _reverse_judge, _reverse, "a text or an array"))
    _add("flatten", _flat_judge, _flatten, "an array of arrays")
    _add(
        "array_join",
        _join_judge,
        _join,
        "an array of texts, a delimiter, and what stands for null or nothing",
    )
    part = one_array(lambda kind: kind, _INT, _INT)
    _add("slice", part, _slice, "an array, a place from 1 and a length", fails=True)
    _add("array_append", _put_judge(0), partial(_put, True), "an array and a value")
    _add("array_prepend", _put_judge(0), partial(_put, False), "an array and a value")
    _add("array_insert", _put_judge(1), _insert, "an array, a place and a value", fails=True)
    _add("sequence", _sequence_judge, _sequence, "two whole numbers, and a step or nothing", fails=True)


_register()
