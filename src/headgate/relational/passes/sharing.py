"""The pass by which parts that several expressions have in common are computed once.

Parts are alike when they are the same rule of the same parts: a rule gives the same for the same arguments. A
function of the program is called as often as it is written, since it may do what it likes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa

from headgate.relational.resolved import (
    Apply,
    Column,
    Constant,
    Member,
    PieceOf,
    PythonApply,
    Shared,
    Typed,
    with_inner,
)
from headgate.relational.spark_types import list_of

_CHEAP: Final = (Column, Constant, Member)


def sharing(expressions: Sequence[Typed]) -> tuple[Typed, ...]:
    """Return equivalent expressions, in which each part that occurs more than once is `Shared`.
    Cheap parts (columns, constants, fields of structs) are left as they are, and two calls of a function of
    the program never count as one part.
    """
    split = [_split_once(each) for each in expressions]
    parts = _Parts()
    for each in split:
        parts.count(each)
    return tuple(parts.rewritten(each) for each in split)


class _Parts:
    """Counts parts of expressions, alike ones as one, and makes those used more than once `Shared`."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._by_object: dict[int, int] = {}
        self._uses: Counter[int] = Counter()

    def count(self, expression: Typed) -> int:
        inner = [self.count(part) for part in expression.inner]
        number = self._numbers.setdefault(_key(expression, inner), len(self._numbers))
        self._by_object[id(expression)] = number
        self._uses[number] += 1
        return number

    def rewritten(self, expression: Typed) -> Typed:
        number = self._by_object[id(expression)]
        found = with_inner(expression, tuple(self.rewritten(part) for part in expression.inner))
        if self._uses[number] < 2 or isinstance(expression, _CHEAP):
            return found
        return Shared(found.type, found.nullable, found, number)


def _key(expression: Typed, inner: list[int]) -> tuple[Any, ...]:
    if isinstance(expression, Column):
        return (Column, expression.index)
    if isinstance(expression, Constant):
        return (Constant, expression.type, repr(expression.value))
    if isinstance(expression, PythonApply):
        return (id(expression),)
    own = [getattr(expression, field.name) for field in fields(expression)]
    plain = tuple(value for value in own if not isinstance(value, (Typed, tuple)))
    return (type(expression), plain, tuple(inner))


def _split_once(expression: Typed) -> Typed:
    # `split_part` becomes two steps, so that a text is split once for all its pieces.
    found = with_inner(expression, tuple(_split_once(part) for part in expression.inner))
    if not isinstance(found, Apply) or found.function != "split_part" or found.tolerant:
        return found
    text, delimiter, number = found.arguments
    known = [each.value.as_py() if isinstance(each, Constant) else None for each in (delimiter, number)]
    if not all(known):  # not constant, null, "" or 0
        return found
    pattern = Constant(pa.string(), False, pa.scalar(_as_pattern(str(known[0]))))
    lists = Apply(list_of(pa.string()), text.nullable, "split", (text, pattern))
    return PieceOf(found.type, found.nullable, lists, int(str(known[1])), str(found))


def _as_pattern(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter > "\x7f" else f"\\{letter}" for letter in text)
