"""Aggregates that keep a group's values: all of them in a list, or each once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.accumulators import Accumulator, AggregateRule, Joint, Parts
from headgate.relational.aggregating.grouping import Grouping
from headgate.relational.aggregating.groups import Groups, picked, present
from headgate.relational.aggregating.lists import (
    alike,
    can_be_listed,
    joined,
    kept_list,
    lengths,
    listed,
    owners,
    without_repeats,
)
from headgate.relational.aggregating.numbers import fitting, sum_type
from headgate.relational.resolved import Values
from headgate.relational.rules import Types
from headgate.relational.spark_types import is_numeric, list_of

Finish = Callable[..., Values]


def _list_of_row(values: pa.Array) -> Sequence[pa.Array]:
    return listed([values], present(values))


def _joined(groups: Groups, lists: pa.Array) -> Sequence[pa.Array]:
    return (joined(groups, lists),)


def _all_of(kind: pa.DataType) -> Joint:
    return Joint((("list", kept_list(kind)),), _list_of_row, _joined)


def _set_of_row(*values: pa.Array) -> Sequence[pa.Array]:
    known = reduce(np.logical_and, map(present, values))
    return listed([alike(each) for each in values], known)


def _united(groups: Groups, *lists: pa.Array) -> Sequence[pa.Array]:
    return without_repeats([joined(groups, each) for each in lists])


def _distinct(kinds: Types) -> Joint:
    names = ["distinct", *(f"distinct_{place}" for place in range(2, len(kinds) + 1))]
    fields = tuple((name, kept_list(kind)) for name, kind in zip(names, kinds, strict=True))
    return Joint(fields, _set_of_row, _united)


# -- results


def _as_array(kind: pa.DataType, lists: Values) -> Values:
    return lists.cast(kind)


def _collected(joint: Callable[[pa.DataType], Joint]) -> Callable[[Types], Parts | None]:
    def judge(given: Types) -> Parts | None:
        if len(given) != 1 or not can_be_listed(given[0]):
            return None
        return Parts(given, (joint(given[0]),), list_of(given[0]), False, _as_array)

    return judge


def _count_distinct(given: Types) -> Parts | None:
    if not given or not all(map(can_be_listed, given)):
        return None

    def finish(_kind: pa.DataType, lists: Values, *_: Values) -> Values:
        return pa.array(lengths(lists))

    return Parts(given, (_distinct(given),), pa.int64(), False, finish)


def _sum_distinct(given: Types) -> Parts | None:
    if len(given) != 1 or not is_numeric(given[0]):
        return None
    kind = sum_type(given[0])
    inner = pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else kind
    summing = Grouping(("list",), (("sum", Accumulator("sum", inner, "sum", "sum")),))

    def finish(result: pa.DataType, lists: Values) -> Values:
        table = pa.table({"list": owners(lists), "sum": lists.flatten()})
        sums = summing.of_rows(table)
        places = np.full(len(lists), -1)
        places[sums.column("list").to_numpy()] = np.arange(len(sums))
        return fitting(result, picked(sums.column("sum").combine_chunks(), places))

    return Parts((inner,), (_distinct((inner,)),), kind, True, finish)


def _joined_texts(joint: Callable[[pa.DataType], Joint]) -> Callable[..., Parts | None]:
    def judge(given: Types, delimiter: str | None = None) -> Parts | None:
        def finish(_kind: pa.DataType, lists: Values) -> Values:
            texts = pc.binary_join(lists.cast(list_of(pa.string())), delimiter or "")
            return pc.if_else(pa.array(lengths(lists) > 0), texts, None)

        if given != (pa.string(),):
            return None
        return Parts(given, (joint(given[0]),), pa.string(), True, finish)

    return judge


def _distinct_values(kind: pa.DataType) -> Joint:
    return _distinct((kind,))


_TEXTS: Final = "a text, and what stands between two of them"
_PLAIN: Final = "a column of numbers, texts, truth values or times"
RULES: Final = (
    AggregateRule("collect_list", _collected(_all_of), _PLAIN, ordered=True),
    AggregateRule("collect_set", _collected(_distinct_values), _PLAIN, ordered=True),
    AggregateRule("count_distinct", _count_distinct, "columns of numbers, texts, truth values or times"),
    AggregateRule("sum_distinct", _sum_distinct, "a number"),
    AggregateRule("listagg", _joined_texts(_all_of), _TEXTS, ordered=True),
    AggregateRule("listagg_distinct", _joined_texts(_distinct_values), _TEXTS, ordered=True),
)
