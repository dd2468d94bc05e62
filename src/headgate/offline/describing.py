"""What is in a snapshot, with the types of keys and some of the keys of each state."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, TypeVar

from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.keys.key_types import KEYS_READ, shape_words
from headgate.common.keys.keygroups import shortened
from headgate.common.ports import Disk
from headgate.offline.keyed_verdicts import StoredKeyed
from headgate.offline.snapshot_pages import SnapshotFacts, StateFacts, describe_snapshot
from headgate.offline.storages import storage_options
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.heads import stored_keys, too_large

SAMPLES: Final = 10
"""Keys that are shown of each state."""

_KEY_CHARACTERS: Final = 120


K = TypeVar("K", bound=Hashable)


def describe_with_keys(uri: str, options: Sequence[str] = (), samples: int = SAMPLES) -> SnapshotFacts:
    """What :func:`headgate.offline.snapshot_pages.describe_snapshot` tells, and what it has of keys.

    Returns:
        As there. A keyed operator also has ``key_types``, the types of all keys that it has seen by name,
        and ``keys_read``: whether none of its files was too large to be fetched for its keys. Each of its
        states has ``keys``, the first ones as Python writes them, which are spread over the subtasks.
    """
    facts = describe_snapshot(uri, options)
    with storage_options(options):
        disk, metadata = open_checkpoint(uri)
        for operator in facts["operators"]:
            stored = StoredKeyed(disk, metadata, operator["uid"])
            if stored.handles:
                operator["key_types"] = sorted(map(shape_words, stored.key_shapes))
                operator["keys_read"] = not any(map(too_large, stored.handles))
                _add_keys(operator["states"], disk, stored.handles, samples)
    return facts


def _add_keys(
    states: Sequence[StateFacts], disk: Disk, handles: Sequence[KeyedStateHandle], samples: int
) -> None:
    found: dict[str, list[list[Hashable]]] = {}
    for keyed in handles:
        for name, portions in stored_keys(DiskFiles(disk), keyed):
            found.setdefault(name, []).append(_first(chain.from_iterable(portions), samples))
    for state in states:
        if state["name"] in found:
            parts = found[state["name"]]
            state["keys"] = [shortened(key, _KEY_CHARACTERS) for key in _spread(parts, samples)]


def _first(keys: Iterator[K], count: int) -> list[K]:
    """The first different keys; a key of a map comes once for each of its entries."""
    found: dict[K, None] = {}
    for key in islice(keys, KEYS_READ):
        if len(found) >= count:
            break
        found[key] = None
    return list(found)


def _spread(parts: Sequence[Sequence[K]], count: int) -> list[K]:
    """The first keys of each part in turn, each key once."""
    longest = max(map(len, parts), default=0)
    turns = [part[place] for place in range(longest) for part in parts if place < len(part)]
    return list(dict.fromkeys(turns))[:count]
