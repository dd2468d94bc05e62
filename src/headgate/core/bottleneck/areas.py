"""Names in samples of stacks, such as those of what the framework itself does; `judge` reads them."""

from __future__ import annotations

from typing import Final

IDLE: Final = "(idle)"
FRAMEWORK: Final = "(Headgate)"
ROCKSDB: Final = "(state in RocksDB)"
SERIALIZATION: Final = "(serialization)"
SENDING: Final = "(sending)"
CHECKPOINT: Final = "(checkpoint)"

INCLUSIVE: Final = frozenset({ROCKSDB, SERIALIZATION})
"""Areas that include the program's code which they call, such as a serializer of its own."""

NAME_MAX: Final = 120


def stack_name(text: str) -> str:
    """Return the name of an operator or a function as it is in a stack: without semicolons, and not too long.

    Example:
        >>> stack_name("operator 'a;b' (uid 'ab')")
        "operator 'a,b' (uid 'ab')"
        >>> len(stack_name("operator 'json files /long/path' (uid 'in')" * 9))
        120
    """
    text = text.replace(";", ",")
    if len(text) <= NAME_MAX:
        return text
    # The end has the uid of an operator, and the line of a function.
    return f"{text[: NAME_MAX // 2 - 3]}...{text[-NAME_MAX // 2 :]}"
