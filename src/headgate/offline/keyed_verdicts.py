"""Judges whether a program can restore the keyed state of one operator: as is, converted, or not.

The types in the metadata are compared first. The heads of files are read only where the metadata is not
enough: something does not fit, so it counts whether anything is stored of it, or there is a log of changes,
whose base may be of an earlier program.

Types show whether values can be converted, but not always whether each value can: whether the elements of a
set stay distinct when a field goes, only the elements show. So values that would be converted are read on
trial, by the restore's own code, and discarded; but not of a subtask with more than `BYTES_TRIED`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.api.declared.operator_state import OperatorStateDescriptor
from headgate.checkpoint.data_files import read_handle
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import UsageError
from headgate.common.keys.key_types import DeclaredKeys, Shape, first_misfit, hint_words, shape_words
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.common.process.system import SystemClock
from headgate.common.time import WATERMARK_MIN
from headgate.offline.upgrade import Item, Verdict, gravest
from headgate.offline.words import OPERATOR_STATE, state_words
from headgate.restore.restored_keys import stored_shapes
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_state import filled_backend
from headgate.serde.verdicts import AfterMigration, AsIs, Compatibility, Incompatible, Reconfigured
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.operator_state import OperatorStateBackend
from headgate.state.snapshots import (
    CheckpointMetadata,
    KeyedStateHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    size_of,
)
from headgate.state.state_names import Claims, is_stamps
from headgate.state.stored.heads import filled_natively, judge_state, key_shapes, sections_of, too_large
from headgate.state.targets import Target, target_of, timers_target
from headgate.state.ttl.declared import with_stamps

CONVERTED: Final = (Verdict.RECONFIGURED, Verdict.AFTER_MIGRATION)
NOTHING_STORED: Final = "nothing is stored of it"
KEYS_MAY_NOT: Final = (
    "keys decide where state is, so they may not change; `headgate savepoint migrate` rewrites them"
)
NOT_ALL: Final = "RocksDB's files are too large to be fetched for their keys; the restore looks at them"
NOT_TRIED: Final = "too large to be converted on trial; the restore looks at each value"
BYTES_TRIED: Final = 256 << 20
"""Bytes of a subtask's state above which its values are not converted on trial."""


class StoredKeyed:
    """The keyed state of operator `uid` in a snapshot; empty if the snapshot has none of it.

    `handles` are its subtasks' state, `types` the descriptions of its states in the metadata.
    """

    def __init__(self, disk: Disk, metadata: CheckpointMetadata, uid: str) -> None:
        self._disk, self._max_parallelism = disk, metadata.max_parallelism
        self._files = DiskFiles(disk)
        subtasks = metadata.operators.get(uid, [])
        self.handles = [state.keyed for state in subtasks if state.keyed is not None]
        types = metadata.state_types.get(uid, {})
        self.types = {name: schema for name, schema in types.items() if schema["kind"] not in OPERATOR_STATE}

    @cached_property
    def schemas(self) -> dict[str, list[Description]]:
        """State -> the types of its entries, from the heads of files; without empty states and timers."""
        found: dict[str, list[Description]] = {}
        for keyed in self.handles:
            unknown = {section.name for section in sections_of(self._files, keyed) if section.entries is None}
            native = filled_natively(self._files, keyed) if unknown and keyed.native else frozenset[str]()
            for section in sections_of(self._files, keyed):
                filled = (
                    section.name in native
                    if section.entries is None and keyed.native
                    else section.entries != 0
                )
                if filled and section.name not in TIMER_SECTIONS:
                    add(found.setdefault(section.name, []), section.schema)
        return found

    @cached_property
    def key_shapes(self) -> frozenset[Shape]:
        """The types of the keys: from the metadata, else from some of the keys if files are not too large."""
        known = [stored_shapes(keyed) for keyed in self.handles]
        unknown = [keyed for keyed, shapes in zip(self.handles, known, strict=True) if shapes is None]
        return key_shapes(self._files, unknown).union(*(shapes for shapes in known if shapes is not None))

    @property
    def keys_unread(self) -> bool:
        return any(stored_shapes(keyed) is None and too_large(keyed) for keyed in self.handles)

    def refusals(self, state: StateDescriptor) -> Iterator[str]:
        """Read a state's values as declared, and yield why a subtask's cannot be; skip subtasks too large."""
        own = {state.name: state}
        for keyed in self.handles:
            if _too_large_to_try(keyed):
                continue
            held = [OperatorSubtaskState("", keyed)]
            context = OperatorContext(
                "", "", 0, 1, 1, "", self._max_parallelism, SystemClock(), held, self._disk
            )
            groups, claims = (keyed.first_group, keyed.last_group), Claims(with_stamps(own))
            try:
                filled_backend(context, own, groups, lambda: WATERMARK_MIN, claims).close()
            except UsageError as error:
                yield str(error)


def _too_large_to_try(stored: KeyedStateHandle) -> bool:
    return stored.size > BYTES_TRIED


def operator_refusals(
    disk: Disk, stored: Sequence[OperatorStateHandle], state: OperatorStateDescriptor
) -> Iterator[str]:
    """Yield why elements of an operator state cannot be read as declared; skips parts above `BYTES_TRIED`."""
    for held in stored:
        if size_of(held.handle) > BYTES_TRIED:
            continue
        every = replace(held, first=0, stop=held.count)
        try:
            OperatorStateBackend({state.name: state}).restore([(every, read_handle(disk, held.handle))])
        except UsageError as error:
            yield str(error)


def add(schemas: list[Description], schema: Description) -> None:
    if schema not in schemas:
        schemas.append(schema)


def targets_of(states: Mapping[str, StateDescriptor]) -> dict[str, Target]:
    """Return how a backend stores a function's states, their last-access times and its timers, by name."""
    return _targets(states) | dict.fromkeys(TIMER_SECTIONS, timers_target())


def _targets(states: Mapping[str, StateDescriptor]) -> dict[str, Target]:
    return {name: target_of(descriptor) for name, descriptor in with_stamps(states).items()}


def judged(
    stored: StoredKeyed, states: Mapping[str, StateDescriptor] | None, declared: DeclaredKeys | None = None
) -> list[Item]:
    """Return verdicts on each state, and on timers and keys if something is stored.

    `states` are the states that the program declares, None: it has no such keyed operator. `declared` is its
    type of keys, None: it says nothing of it. Values that would be converted are read on trial.
    """
    only_in_heads = any(keyed.log for keyed in stored.handles)  # the metadata may not have all types
    items = _by_types(stored, _targets(states or {}), stored.schemas if only_in_heads else None)
    bad = {Verdict.INCOMPATIBLE, Verdict.ONLY_IN_SNAPSHOT}
    if not only_in_heads and any(item.verdict in bad for item in items):
        # Serializers that a restore reconfigures remember it, so they are made anew.
        items = _by_types(stored, _targets(states or {}), stored.schemas)
    if states is not None:
        items = [_on_trial(stored, item, states) for item in items]
    # A savepoint has tables only for what holds something.
    if any(keyed.tables != [] for keyed in stored.handles):
        verdict = Verdict.AS_IS if states is not None else Verdict.ONLY_IN_SNAPSHOT
        items.append(Item("timers", "timers", verdict))
        items += [] if states is None else _keys(stored, declared)
    return items


def _on_trial(stored: StoredKeyed, item: Item, states: Mapping[str, StateDescriptor]) -> Item:
    if item.verdict not in CONVERTED:
        return item
    tried = refused(item, stored.refusals(states[item.name]))
    if tried is item and any(map(_too_large_to_try, stored.handles)):
        return replace(item, why=f"{item.why}; {NOT_TRIED}")
    return tried


def refused(item: Item, reasons: Iterable[str]) -> Item:
    """Return the item as incompatible, with the reasons in its text; the item itself if there are none."""
    short = [in_short(reason) for reason in dict.fromkeys(reasons)]
    return replace(item, verdict=Verdict.INCOMPATIBLE, why="; ".join(short)) if short else item


def _by_types(
    stored: StoredKeyed, targets: Mapping[str, Target], filled: Mapping[str, list[Description]] | None
) -> list[Item]:
    # `filled` has the types of states with entries, None: those in the metadata.
    types: dict[str, list[Description]] = {name: [schema] for name, schema in stored.types.items()}
    types |= filled or {}
    items = []
    for name in sorted({*types, *targets}, key=lambda name: (name not in targets, name)):
        item = _state(stored, name, types.get(name), targets.get(name), filled is None or name in filled)
        if item is not None and not (is_stamps(name) and item.verdict is not Verdict.INCOMPATIBLE):
            items.append(item)
    return items


def _state(
    stored: StoredKeyed, name: str, schemas: list[Description] | None, target: Target | None, filled: bool
) -> Item | None:
    declared = None if target is None else state_words(target.schema)
    if schemas is None:
        return Item("state", name, Verdict.ONLY_IN_PROGRAM, None, declared)
    words = " and ".join(map(state_words, schemas))
    if not filled:
        # A restore does not look at the type of what has no entries.
        return None if target is None else Item("state", name, Verdict.AS_IS, words, declared, NOTHING_STORED)
    if target is None:
        return Item("state", name, Verdict.ONLY_IN_SNAPSHOT, words)
    verdict, why = together(
        one for schema in schemas for one in judge_state(name, schema, target, stored.handles)
    )
    return Item("state", name, verdict, words, declared, why)


def together(found: Iterable[Compatibility]) -> tuple[Verdict, str | None]:
    """Return the worst of serializers' verdicts as a `Verdict` of the report, with the reasons of all."""
    verdicts = [_verdict(one) for one in found]
    why = "; ".join(dict.fromkeys(why for _, why in verdicts if why))
    return gravest(verdict for verdict, _ in verdicts), why or None


def _verdict(compatibility: Compatibility) -> tuple[Verdict, str]:
    match compatibility:
        case AsIs():
            return Verdict.AS_IS, ""
        case Reconfigured(changes):
            return Verdict.RECONFIGURED, "; ".join(changes)
        case AfterMigration(changes):
            return Verdict.AFTER_MIGRATION, "; ".join(changes)
        case Incompatible(why):
            return Verdict.INCOMPATIBLE, in_short(why)


def in_short(message: str) -> str:
    for begin in ("as the program declares it: ", "cannot be read: "):
        _, found, rest = message.partition(begin)
        if found:
            return rest.partition("; declare the type as it was")[0]
    return message


def _keys(stored: StoredKeyed, declared: DeclaredKeys | None) -> Iterable[Item]:
    shapes = stored.key_shapes
    if not shapes and not stored.keys_unread:
        return
    words = " and ".join(sorted(map(shape_words, shapes))) or None
    if declared is None:
        yield Item("keys", "keys", Verdict.AS_IS, words, None, "the program does not declare their type")
        return
    hint, wrong = hint_words(declared.hint), first_misfit(shapes, declared.hint)
    if wrong is None:
        yield Item("keys", "keys", Verdict.AS_IS, words, hint, NOT_ALL if stored.keys_unread else None)
        return
    why = f"{shape_words(wrong)} to {hint}, as {declared.teller} declares: {KEYS_MAY_NOT}"
    yield Item("keys", "keys", Verdict.INCOMPATIBLE, words, hint, why)
