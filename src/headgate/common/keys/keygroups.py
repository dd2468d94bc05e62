"""Functions from a key to its key group, and from a key group to the subtask that owns it.

The result is part of the stored bytes, like the hash that it is made of (`key_hashes`): it is the same on
every platform, version and process for ever. The forms for whole batches live in
:mod:`headgate.common.keys.keygroups_vectorised`, which is imported when one is called, as it needs numpy.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final

from headgate.common.errors import UsageError
from headgate.common.keys.key_hashes import ALLOWED_KEYS as ALLOWED_KEYS
from headgate.common.keys.key_hashes import Key as Key
from headgate.common.keys.key_hashes import combine as combine
from headgate.common.keys.key_hashes import key_hash as key_hash
from headgate.common.keys.key_hashes import shortened as shortened
from headgate.common.keys.key_hashes import type_name as type_name

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

MAX_PARALLELISM_LIMIT: Final = 1 << 15  # most key groups that a job can have; a key group fits into 16 bits

DEFAULT_MAX_PARALLELISM_MIN: Final = 1 << 7
"""Fewest key groups that a job gets unless its program sets a number."""

_MASK: Final = 0xFFFFFFFF


def key_group(key: Hashable, max_parallelism: int) -> int:
    """Return a key's key group, from 0 to `max_parallelism` - 1; UsageError for NaN, and types no key has.

    Example:
        >>> [key_group(key, 128) for key in (0, 1, 42, -1)]
        [94, 86, 29, 80]
    """
    return murmur(key_hash(key)) % max_parallelism


def murmur(value: int) -> int:
    """Mix a key's 32-bit hash into a number from 0 to 2**31 - 1, whose modulo is the key group.

    Example:
        >>> murmur(0), murmur(12345)
        (593689054, 638799361)
    """
    mixed = (value * 0xCC9E2D51) & _MASK
    mixed = ((mixed << 15) | (mixed >> 17)) & _MASK
    mixed = (mixed * 0x1B873593) & _MASK
    mixed = ((mixed << 13) | (mixed >> 19)) & _MASK
    mixed = (mixed * 5 + 0xE6546B64) & _MASK
    mixed ^= 4
    mixed ^= mixed >> 16
    mixed = (mixed * 0x85EBCA6B) & _MASK
    mixed ^= mixed >> 13
    mixed = (mixed * 0xC2B2AE35) & _MASK
    mixed ^= mixed >> 16
    if mixed < 0x80000000:
        return mixed
    return (0x100000000 - mixed) & 0x7FFFFFFF


def key_groups_of_arrow(
    columns: pa.Array | pa.ChunkedArray | Sequence[pa.Array | pa.ChunkedArray],
    max_parallelism: int,
) -> NDArray[np.int32]:
    """Return the key groups of an Arrow column, or of the tuples that several columns make together.

    A row's key is the Python value that Arrow gives for it, so its group, from 0 to `max_parallelism` - 1, is
    that of :func:`key_group`. Even a list of one column means tuples. UsageError for nulls, NaN, other types.
    """
    from headgate.common.keys import keygroups_vectorised as vectorised

    if isinstance(columns, (list, tuple)):
        rows = len(columns[0]) if columns else 0
        hashes = vectorised.hashes_of_columns([vectorised.hashes_of_arrow(c) for c in columns], rows)
    else:
        hashes = vectorised.hashes_of_arrow(columns)
    return vectorised.groups_of_hashes(hashes, max_parallelism)


def key_groups_of_keys(keys: Sequence[Hashable], max_parallelism: int) -> NDArray[np.int32]:
    """Return the :func:`key_group` of each key; UsageError for NaN and types that no key has."""
    from headgate.common.keys import keygroups_vectorised as vectorised

    return vectorised.groups_of_hashes(vectorised.hashes_of_keys(keys), max_parallelism)


def operator_indexes_of_key_groups(
    groups: NDArray[np.integer], max_parallelism: int, parallelism: int
) -> NDArray[np.uint16]:
    """Return, for each key group in `groups`, which of `parallelism` subtasks (from 0) owns it, as uint16."""
    import numpy as np

    owners = np.arange(max_parallelism, dtype=np.int64) * parallelism // max_parallelism
    return owners.astype(np.uint16).take(groups)


def operator_index_for_key_group(max_parallelism: int, parallelism: int, group: int) -> int:
    """Return which of `parallelism` subtasks (from 0) owns key group `group` of `max_parallelism`; no check.

    Example:
        >>> [operator_index_for_key_group(128, 3, group) for group in (0, 42, 43, 127)]
        [0, 0, 1, 2]
    """
    return group * parallelism // max_parallelism


def key_group_range(max_parallelism: int, parallelism: int, index: int) -> tuple[int, int]:
    """Return the first and last key group of subtask `index` (from 0); UsageError if numbers do not fit.

    Example:
        >>> [key_group_range(10, 3, index) for index in range(3)]
        [(0, 3), (4, 6), (7, 9)]
    """
    check_parallelism(max_parallelism, parallelism)
    if not 0 <= index < parallelism:
        raise UsageError(f"subtask index is {index}; expected 0 to {parallelism - 1}")
    first = (index * max_parallelism + parallelism - 1) // parallelism
    last = ((index + 1) * max_parallelism - 1) // parallelism
    return first, last


def default_max_parallelism(parallelism: int) -> int:
    """Return the number of key groups of an operator whose program names none.

    One and a half times the parallelism, rounded up to a power of two, from 128 to 32768: room to grow
    without making the pieces of state needlessly small. UsageError for a parallelism outside 1 to 32768.

    Example:
        >>> [default_max_parallelism(p) for p in (1, 86, 1000, 32768)]
        [128, 256, 2048, 32768]
    """
    check_parallelism(MAX_PARALLELISM_LIMIT, parallelism)
    wanted = parallelism + parallelism // 2
    rounded = 1 << (wanted - 1).bit_length() if wanted > 1 else 1
    return min(max(rounded, DEFAULT_MAX_PARALLELISM_MIN), MAX_PARALLELISM_LIMIT)


def check_parallelism(max_parallelism: int, parallelism: int) -> None:
    """Raise UsageError unless there are 1 to 32768 key groups, and from 1 to as many subtasks."""
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise UsageError(f"max parallelism is {max_parallelism}; expected 1 to {MAX_PARALLELISM_LIMIT}")
    if not 1 <= parallelism <= max_parallelism:
        raise UsageError(
            f"parallelism is {parallelism}; expected 1 to {max_parallelism}, its max parallelism"
        )
