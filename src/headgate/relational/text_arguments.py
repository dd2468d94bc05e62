"""Which arguments of functions are text that means itself: PySpark takes other text for a column's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FIRST: Final = (
    "concat_ws", "date_trunc", "format_string", "locate", "timestamp_add", "timestamp_diff",
)  # fmt: skip
_SECOND: Final = (
    "array_append", "array_contains", "array_position", "array_prepend", "array_remove", "assert_true",
    "date_format", "decode", "element_at", "encode", "from_unixtime", "from_utc_timestamp", "instr",
    "map_contains_key", "next_day", "regexp_extract", "split", "substring_index", "to_date", "to_timestamp",
    "to_utc_timestamp", "trunc", "unix_timestamp",
)  # fmt: skip

PLACES: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(_FIRST, (0,)),
    **dict.fromkeys(_SECOND, (1,)),
    "array_insert": (2,),
    "array_join": (1, 2),
    "lpad": (2,),
    "regexp_replace": (1, 2),
    "rpad": (2,),
    "translate": (1, 2),
}
"""Name of a function, without `try_` -> indices of its arguments, from 0, in which text means itself."""
