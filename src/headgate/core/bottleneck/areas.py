"""The names of what the framework itself does, in samples of stacks. Workers write them, `judge` reads."""

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
