"""Reads the stored state of one key, in whatever form it lies, and writes a snapshot of that key alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.ports import Disk
from headgate.state.backend import Entries, NewSection
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob import BlobWriter
from headgate.state.stored.subtask_state import open_state
from headgate.state.stored.values import DeclaredValues
from headgate.state.targets import Target

KeyState = dict[str, list[Any]]
"""State of one key: by name of the state its only value, by kind of timers their times; no empty lists."""

_WORDS: Final = {"timers:event": "event", "timers:processing": "processing"}


class KeyReader:
    """Reads the state of one key from snapshots with `groups` key groups; `targets`: as the program declares.

    All bytes that are read are verified. A state that the program does not declare is left out with `drop`.
    """

    def __init__(
        self, key: Hashable, group: int, groups: int, targets: Mapping[str, Target], *, drop: bool = False
    ) -> None:
        self._key, self._group, self._groups, self._targets = key, group, groups, targets
        self._values = DeclaredValues(targets, drop)

    def read(self, disk: Disk | None, stored: Sequence[KeyedStateHandle]) -> KeyState:
        """Return the key's state in what subtasks stored; of those without its key group nothing is read.

        Raises:
            StorageError: missing or damaged.
            UsageError: a type does not fit the declared one, or a state is not declared.
        """
        found: KeyState = {}
        for keyed in stored:
            if keyed.first_group <= self._group <= keyed.last_group:
                for name, values in self._of_subtask(DiskFiles(disk), keyed).items():  # type: ignore[arg-type]
                    found.setdefault(name, []).extend(values)
        return found

    def _of_subtask(self, files: DiskFiles, keyed: KeyedStateHandle) -> KeyState:
        names = [*self._targets]
        with open_state(files, keyed, self._groups) as state:
            merged = state.by_group(self._values, names, [self._group])
            taken = {name: merged[name].take(self._group) for name in names}
        found = {
            name: [value for key, value in zip(each.keys, each.values, strict=True) if key == self._key]
            for name, each in taken.items()
        }
        return {name: values for name, values in found.items() if values}

    def alone(self, disk: Disk | None, keyed: KeyedStateHandle) -> KeyedStateHandle:
        """Return the handle of a snapshot with nothing of `keyed` but this key; it refers to no file."""
        groups = keyed.first_group, keyed.last_group
        writer = BlobWriter(groups, self._groups)
        for name, values in self.read(disk, [keyed]).items():
            target = self._targets[name]
            section = NewSection(name, target.schema, target.serializer.encode_many)
            writer.add(section, [Entries(self._group, [self._key] * len(values), values)])
        return msgspec.structs.replace(writer.finish(), key_types=keyed.key_types)

    def encoded(self, state: KeyState) -> dict[str, list[bytes]]:
        """Return the state as stored bytes that can be compared: maps entry by entry, timers one by one."""
        return {name: self._encoded(name, values) for name, values in state.items()}

    def _encoded(self, name: str, values: list[Any]) -> list[bytes]:
        encode = self._targets[name].serializer.encode_many
        if name in TIMER_SECTIONS:
            return sorted(encode([value]) for value in values)
        if len(values) == 1 and isinstance(values[0], dict):
            # The order of a map's entries is that of a backend, and no part of its value.
            return sorted(encode([{key: value}]) for key, value in values[0].items())
        return [encode([value]) for value in values]


def shown(state: KeyState) -> dict[str, str]:
    """Return a key's state for people: maps entry by entry, each value as Python writes it.

    Example:
        >>> shown({"seen": [{"a": 1}], "timers:event": [20, 10]})
        {"seen['a']": '1', 'event timers': '10, 20'}
    """
    found: dict[str, str] = {}
    for name, values in state.items():
        if name in TIMER_SECTIONS:
            found[f"{_WORDS[name]} timers"] = ", ".join(map(str, sorted(values)))
        elif len(values) == 1 and isinstance(values[0], dict):
            found |= {f"{name}[{key!r}]": repr(value) for key, value in values[0].items()}
        else:
            found[name] = ", ".join(map(repr, values))
    return found
