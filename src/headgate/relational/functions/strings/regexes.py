"""Rules of regular expressions, in the dialect that `dialect.py` takes; patterns are constants."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import PlanError
from headgate.relational.functions.kernels import of_distinct, per_row, per_value
from headgate.relational.functions.strings.dialect import (
    CommonPattern,
    common_pattern,
    group_name,
    replacement_parts,
)
from headgate.relational.resolved import Typed, Values
from headgate.relational.rules import (
    Judge,
    Kernel,
    RowsFailed,
    Rule,
    Signature,
    Types,
    add,
    constant_of,
    either,
    exactly,
)
from headgate.relational.spark_types import list_of, text_of

FAMILY: Final = "strings"
_TEXT: Final = pa.string()
_INT: Final = pa.int32()
_TEXTS: Final = list_of(pa.string())


# -- while the plan is made


def _with_pattern(found: Signature, arguments: Sequence[Typed]) -> Signature:
    _pattern_of(arguments)
    return found


def _pattern_of(arguments: Sequence[Typed]) -> CommonPattern | None:
    given = constant_of(arguments, 1, "the pattern")
    if not given.is_valid:
        return None
    if not pa.types.is_string(given.type):
        raise PlanError(f"the pattern must be a text; got {text_of(given.type)}")
    return common_pattern(given.as_py())


def _never_empty(found: Signature, arguments: Sequence[Typed]) -> Signature:
    # Spark finds an empty text within surrogates, too.
    pattern = _pattern_of(arguments)
    if pattern is not None and pattern.nullable:
        raise PlanError(f"the pattern {arguments[1]} matches an empty text, which is not taken here")
    return found


def _replacing(found: Signature, arguments: Sequence[Typed]) -> Signature:
    _never_empty(found, arguments)
    replacement = constant_of(arguments, 2, "the replacement")
    pattern = _pattern_of(arguments)
    if pattern is not None and pa.types.is_string(replacement.type) and replacement.is_valid:
        replacement_parts(replacement.as_py(), pattern.groups)
    return found


def _splitting(found: Signature, arguments: Sequence[Typed]) -> Signature:
    given = constant_of(arguments, 1, "the pattern")
    return found if given.as_py() == "" else _never_empty(found, arguments)


# -- kernels


def _by_pattern(function: Callable[..., object]) -> Kernel:
    def kernel(result: pa.DataType, text: Values, pattern: pa.Scalar, *others: Values) -> Values:
        if not pattern.is_valid:
            return pa.scalar(None, result)
        return per_row(partial(function, common_pattern(pattern.as_py())))(result, text, *others)

    return kernel


def _matches(result: pa.DataType, text: Values, pattern: pa.Scalar) -> Values:
    if not pattern.is_valid:
        return pa.scalar(None, result)
    found = common_pattern(pattern.as_py())
    if found.re2 is not None:
        return pc.match_substring_regex(text, pattern=found.re2)
    return per_value(lambda each: found.python.search(each) is not None)(result, text)


def _count(pattern: CommonPattern, text: str) -> int:
    return sum(1 for _ in pattern.python.finditer(text))


def _refuse_group(pattern: CommonPattern, group: int) -> None:
    if not 0 <= group <= pattern.groups:
        why = f"there is no group {group} in the pattern, which has {pattern.groups}"
        raise RowsFailed("INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX", why)


def _extract(pattern: CommonPattern, text: str, group: int = 1) -> str:
    found = pattern.python.search(text)
    if found is None:
        return ""
    _refuse_group(pattern, group)
    return found[group] or ""


def _extracted(result: pa.DataType, text: Values, pattern: pa.Scalar, group: Values | None = None) -> Values:
    found = common_pattern(pattern.as_py()) if pattern.is_valid else None
    number = 1 if group is None else group.as_py() if isinstance(group, pa.Scalar) else None
    if found is None or found.re2 is None or number is None or not 0 <= number <= found.groups:
        return _by_pattern(_extract)(result, text, pattern, *(() if group is None else (group,)))
    whole = f"(?P<{group_name(0)}>{found.re2})" if number == 0 else found.re2

    def extracted(texts: Values) -> Values:
        return pc.fill_null(pc.struct_field(pc.extract_regex(texts, pattern=whole), group_name(number)), "")

    return pc.if_else(pc.is_valid(text), of_distinct(extracted, text), pa.scalar(None, result))


def _extract_all(pattern: CommonPattern, text: str, group: int = 1) -> list[str]:
    found = list(pattern.python.finditer(text))
    if found:
        _refuse_group(pattern, group)
    return [match[group] or "" for match in found]


def _substring(pattern: CommonPattern, text: str) -> str | None:
    found = pattern.python.search(text)
    return (found[0] or None) if found is not None else None


def _place(pattern: CommonPattern, text: str, _group: int = 0) -> int:
    found = pattern.python.search(text)
    return 0 if found is None else found.start() + 1


def _replace(result: pa.DataType, text: Values, pattern: pa.Scalar, replacement: pa.Scalar) -> Values:
    if not pattern.is_valid or not replacement.is_valid:
        return pa.scalar(None, result)
    found = common_pattern(pattern.as_py())
    parts = replacement_parts(replacement.as_py(), found.groups)
    if found.re2 is not None and all(isinstance(part, str) for part in parts):
        plain = "".join(str(part) for part in parts).replace("\\", "\\\\")
        return pc.replace_substring_regex(text, pattern=found.re2, replacement=plain)
    return per_value(lambda each: found.python.sub(partial(_filled, parts), each))(result, text)


def _filled(parts: Sequence[str | int], match: re.Match[str]) -> str:
    return "".join(part if isinstance(part, str) else match[part] or "" for part in parts)


def _split(result: pa.DataType, text: Values, pattern: pa.Scalar, limit: Values | None = None) -> Values:
    if not pattern.is_valid:
        return pa.scalar(None, result)
    if pattern.as_py() == "":
        return per_row(_letters)(result, text, *(() if limit is None else (limit,)))
    found = common_pattern(pattern.as_py())
    if found.literal is not None and limit is None:
        return pc.cast(pc.split_pattern(text, pattern=found.literal), result)
    return per_row(partial(_pieces, found))(result, text, *(() if limit is None else (limit,)))


def _letters(text: str, limit: int = -1) -> list[str]:
    size = len(text) if limit <= 0 or limit > len(text) else limit
    return [*text[: size - 1], text[size - 1 :]] if text else [""]


def _pieces(pattern: CommonPattern, text: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    start = 0
    for match in pattern.python.finditer(text):
        if 0 < limit <= len(found) + 1:
            break
        found.append(text[start : match.start()])
        start = match.end()
    return [*found, text[start:]]


def _two(result: pa.DataType, *more: pa.DataType, nullable: bool | None = None) -> Judge:
    least = exactly((_TEXT, _TEXT), result, nullable=nullable)
    return either(least, exactly((_TEXT, _TEXT, *more), result, nullable=nullable)) if more else least


def _replaced(given: Types) -> Signature | None:
    return exactly((_TEXT, _TEXT, _TEXT), _TEXT)(given)


def _register() -> None:
    takes = "a text and a pattern"
    group = f"{takes}, and the number of a group or nothing"
    add(Rule("rlike", FAMILY, _two(pa.bool_()), _matches, takes, refine=_with_pattern, costly=True))
    add(
        Rule("regexp_count", FAMILY, _two(_INT), _by_pattern(_count), takes, refine=_never_empty, costly=True)
    )
    extracts = _by_pattern(_extract_all)
    add(
        Rule("regexp_extract", FAMILY, _two(_TEXT, _INT), _extracted, group, fails=True, refine=_with_pattern)
    )
    add(
        Rule(
            "regexp_extract_all", FAMILY, _two(_TEXTS, _INT), extracts, group, fails=True, refine=_never_empty
        )
    )
    substring = _two(_TEXT, nullable=True)
    add(Rule("regexp_substr", FAMILY, substring, _by_pattern(_substring), takes, refine=_with_pattern))
    add(Rule("regexp_instr", FAMILY, _two(_INT, _INT), _by_pattern(_place), group, refine=_with_pattern))
    three = "a text, a pattern and a replacement"
    add(Rule("regexp_replace", FAMILY, _replaced, _replace, three, refine=_replacing))
    limit = f"{takes}, and the largest number of pieces or nothing"
    add(Rule("split", FAMILY, _two(_TEXTS, _INT), _split, limit, refine=_splitting))


_register()
