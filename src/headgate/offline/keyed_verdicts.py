"""What a program makes of the keyed state of one operator, as `state.stored.judge` judges it.

The types in the metadata are looked at first; the heads of files only where these would not do: something
does not fit, so it counts whether anything is stored of it, or there is a log of changes, whose base may be
of an earlier program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.keys.key_types import DeclaredKeys, Shape, first_misfit, hint_words, shape_words
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.offline.report import Item, Verdict, gravest
from headgate.offline.trial import NOT_TRIED, keyed_refusals, not_tried
from headgate.offline.words import OPERATOR_STATE, state_words
from headgate.restore.restored_keys import told_shapes
from headgate.serde.compatibility import AfterMigration, AsIs, Compatibility, Incompatible, Reconfigured
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import CheckpointMetadata
from headgate.state.state_names import is_stamps
from headgate.state.stored.heads import filled_natively, key_shapes, sections_of, too_large
from headgate.state.stored.judge import judge
from headgate.state.targets import Target, target_of, timers_target
from headgate.state.ttl.declared import with_stamps

CONVERTED: Final = (Verdict.RECONFIGURED, Verdict.AFTER_MIGRATION)
NOTHING_STORED: Final = "nothing is stored of it"
KEYS_MAY_NOT: Final = (
    "keys decide where state is, so they may not change; `headgate savepoint migrate` rewrites them"
)

NOT_ALL: Final = "RocksDB's files are too large to be fetched for their keys; the restore looks at them"


class StoredKeyed:
    """The keyed state of one operator in a snapshot."""

    def __init__(self, disk: Disk, metadata: CheckpointMetadata, uid: str) -> None:
        self._disk, self._max_parallelism = disk, metadata.max_parallelism
        self._files = DiskFiles(disk)
        subtasks = metadata.operators.get(uid, [])
        self.handles = [state.keyed for state in subtasks if state.keyed is not None]
        told = metadata.state_types.get(uid, {})
        self.types = {name: schema for name, schema in told.items() if schema["kind"] not in OPERATOR_STATE}

    @cached_property
    def schemas(self) -> dict[str, list[Description]]:
        """State -> the types that its entries are of; states without entries are left out. Reads heads."""
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
        """The types of the keys that were seen. Where the metadata does not tell them, it reads the keys."""
        told = [told_shapes(keyed) for keyed in self.handles]
        unknown = [keyed for keyed, shapes in zip(self.handles, told, strict=True) if shapes is None]
        return key_shapes(self._files, unknown).union(*(shapes for shapes in told if shapes is not None))

    @property
    def keys_unread(self) -> bool:
        """Whether some keys are told neither by the metadata nor by what is fetched for them."""
        return any(told_shapes(keyed) is None and too_large(keyed) for keyed in self.handles)

    def refusals(self, state: StateDescriptor) -> Iterable[str]:
        """Why values cannot be read as the program declares them, found by reading them."""
        return keyed_refusals(self._disk, self.handles, state, self._max_parallelism)

    @property
    def only_in_heads(self) -> bool:
        """Whether the metadata does not tell all types."""
        return any(keyed.log for keyed in self.handles)


def add(schemas: list[Description], schema: Description) -> None:
    """Add a description unless it is there."""
    if schema not in schemas:
        schemas.append(schema)


def targets_of(states: Mapping[str, StateDescriptor]) -> dict[str, Target]:
    """What a backend keeps for a function with these states: the states, their stamps, the timers."""
    return _targets(states) | dict.fromkeys(TIMER_SECTIONS, timers_target())


def _targets(states: Mapping[str, StateDescriptor]) -> dict[str, Target]:
    return {name: target_of(descriptor) for name, descriptor in with_stamps(states).items()}


def judged(
    stored: StoredKeyed, states: Mapping[str, StateDescriptor] | None, declared: DeclaredKeys | None = None
) -> list[Item]:
    """What becomes of each state, of the timers and of the keys; `states` is None where the program has no
    such keyed operator.
    """
    items = _by_types(stored, _targets(states or {}), stored.schemas if stored.only_in_heads else None)
    bad = {Verdict.INCOMPATIBLE, Verdict.ONLY_IN_SNAPSHOT}
    if not stored.only_in_heads and any(item.verdict in bad for item in items):
        # Serializers that a restore reconfigures remember it, so they are made anew.
        items = _by_types(stored, _targets(states or {}), stored.schemas)
    if states is not None:
        items = [_on_trial(stored, item, states) for item in items]
    # A savepoint's tables are only there for what holds something.
    if any(keyed.tables != [] for keyed in stored.handles):
        verdict = Verdict.AS_IS if states is not None else Verdict.ONLY_IN_SNAPSHOT
        items.append(Item("timers", "timers", verdict))
        items += [] if states is None else _keys(stored, declared)
    return items


def _on_trial(stored: StoredKeyed, item: Item, states: Mapping[str, StateDescriptor]) -> Item:
    """The item, after values that would be converted were: some may not be what their types promise."""
    if item.verdict not in CONVERTED:
        return item
    refused = list(stored.refusals(states[item.name]))
    if refused:
        why = "; ".join(map(in_short, dict.fromkeys(refused)))
        return replace(item, verdict=Verdict.INCOMPATIBLE, why=why)
    if any(map(not_tried, stored.handles)):
        return replace(item, why=f"{item.why}; {NOT_TRIED}")
    return item


def _by_types(
    stored: StoredKeyed, targets: Mapping[str, Target], filled: Mapping[str, list[Description]] | None
) -> list[Item]:
    """An item for each state. `filled` has the types of what has entries; None: all in the metadata."""
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
    found = [told(one) for schema in schemas for one in judge(name, schema, target, stored.handles)]
    verdict = gravest(verdict for verdict, _ in found)
    why = "; ".join(dict.fromkeys(why for _, why in found if why))
    return Item("state", name, verdict, words, declared, why or None)


def told(compatibility: Compatibility) -> tuple[Verdict, str]:
    """A verdict of the engine as one of the report, with its reason."""
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
    """The part of a restore's message that the table of the report does not show already."""
    for said in ("as the program declares it: ", "cannot be read: "):
        _, found, rest = message.partition(said)
        if found:
            return rest.partition("; declare the type as it was")[0]
    return message


def _keys(stored: StoredKeyed, declared: DeclaredKeys | None) -> Iterable[Item]:
    shapes = stored.key_shapes
    if not shapes and not stored.keys_unread:
        return
    words = " and ".join(sorted(map(shape_words, shapes))) or None
    if declared is None:
        yield Item("keys", "keys", Verdict.AS_IS, words, None, "the program does not tell their type")
        return
    wrong = first_misfit(shapes, declared.hint)
    if wrong is None:
        unread = NOT_ALL if stored.keys_unread else None
        yield Item("keys", "keys", Verdict.AS_IS, words, hint_words(declared.hint), unread)
        return
    why = (
        f"{shape_words(wrong)} to {hint_words(declared.hint)}, as {declared.teller} declares: {KEYS_MAY_NOT}"
    )
    yield Item("keys", "keys", Verdict.INCOMPATIBLE, words, hint_words(declared.hint), why)
