"""Rewrites a snapshot to what a program declares, so that it restores as is; keys may change, too.

The work is done where the program's classes are, in the process that captures its plan. For another number
of key groups alone a program is seldom needed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, TypedDict

import msgspec

from headgate.api.declared.keyed_states import declared_state
from headgate.api.declared.operator_state import OperatorStateDescriptor, declared_operator_state
from headgate.checkpoint.data_files import read_handle
from headgate.checkpoint.opening import open_checkpoint
from headgate.common.errors import UsageError
from headgate.common.files.durable_file import replace
from headgate.common.ports import Disk
from headgate.common.settings.config import Config
from headgate.graph.logical import KeyedProcessNode, Node, SinkNode, SourceNode, TimestampsNode
from headgate.graph.physical import PhysicalPlan
from headgate.offline.inspecting import Answer, answered, asked
from headgate.offline.keyed_verdicts import targets_of
from headgate.offline.rewriting import (
    Change,
    KeyedEngine,
    Progress,
    Rewritten,
    StateTypes,
    WriteState,
    rewrite,
)
from headgate.offline.storages import absolute, refuse_unreadable, storage_options
from headgate.restore.assignment import SPLITS, WRITER, publishes, unclaimed_state
from headgate.restore.in_flight_shares import check_receivers
from headgate.restore.split_watermarks import MARKS
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.operator_state import OperatorStateBackend
from headgate.state.snapshots import CheckpointMetadata, OperatorStateHandle, OperatorSubtaskState
from headgate.state.stored.regroup import Rekey
from headgate.state.stored.values import DeclaredValues, PlainValues

_INSPECTOR: Final = "headgate.offline.migrating:inspect"
_LOOK_EVERY_S: Final = 0.2
_CALLS_PER_REPORT: Final = 64


def migrate(
    snapshot: str,
    target: str,
    program: str | Path,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
    *,
    rekey: Mapping[str, str] | None = None,
    max_parallelism: int | None = None,
    form: str | None = None,
    allow_non_restored: bool = False,
    progress: Progress | None = None,
    inspector: str = _INSPECTOR,
    spark: bool | None = False,
) -> Rewritten:
    """Write a snapshot again as a savepoint whose values are all of the types that a program declares.

    Types may change as a restore allows it. Keys may change here, too, by a function of the program: state
    and timers move to the key groups of the new keys. Two keys that would become one are refused.

    Args:
        snapshot: URI of the checkpoint or savepoint, which is only read.
        target: URI of a folder that is empty or not there.
        program: the Python file. It runs up to ``execute()`` in a process of its own and starts no job.
        arguments: those of the program.
        options: ``key=value`` settings; those of storages count for both places, too.
        rekey: uid of a keyed operator -> name of a function in the program, from an old key to the new one.
        max_parallelism: the new number of key groups; None: it stays.
        form: "canonical" or "native"; None: that of a savepoint stays, a checkpoint becomes a native one.
        allow_non_restored: state that the program lacks is left behind.
        progress: called, in a thread, with what is done, how much of it, and of how much.
        inspector: what does the work in the program's process, as "module:function".
        spark: whether an inspector that knows Spark uses it; None: where the state is large.

    Raises:
        UsageError: `target` has files, two keys become one, or the program does not fit or cannot be planned.
        StorageError: the snapshot is damaged, or a disk refused.
    """
    with storage_options(options), tempfile.TemporaryDirectory(prefix="headgate-offline-") as folder:
        refuse_unreadable(snapshot)
        file = Path(folder) / "progress"
        request = MigrationRequest(
            snapshot=absolute(snapshot),
            target=absolute(target),
            rekey=dict(rekey or {}),
            max_parallelism=max_parallelism,
            form=form,
            allow_non_restored=allow_non_restored,
            progress=str(file),
            spark=spark,
        )
        with nullcontext() if progress is None else _forwarded(file, progress):
            return asked(Rewritten, inspector, request, program, arguments, options, None)


def reslice(
    snapshot: str,
    target: str,
    max_parallelism: int,
    form: str | None = None,
    progress: Progress | None = None,
    *,
    program: str | Path | None = None,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Rewritten:
    """Write a snapshot again as a savepoint with another number of key groups.

    A job can then run at a parallelism above the number that it began with. Keyed state and timers are
    written anew, through the disk for temporary files where they do not fit into memory; all else is copied.

    A program is needed where values cannot be separated without it: those of a serializer of its own outside
    tables, and those of older types in RocksDB's files. They are then written as it declares them, as
    :func:`migrate` does.

    The parameters are those of :func:`migrate`; `program` is None where none is needed.

    Raises:
        UsageError: it cannot be done with this snapshot; gives the reason.
        StorageError: the snapshot is damaged, or a disk refused.
    """
    if program is not None:
        change = partial(migrate, max_parallelism=max_parallelism, form=form, progress=progress)
        return change(snapshot, target, program, arguments, options)
    with storage_options(options):
        return rewrite(snapshot, target, _Resliced(max_parallelism), form, progress)


class _Resliced(Change):
    def __init__(self, max_parallelism: int) -> None:
        self.max_parallelism = max_parallelism

    def values(self, uid: str) -> PlainValues:
        return PlainValues()


class MigrationRequest(TypedDict):
    """The request of `migrate` to the program's process, which reports to the file `progress`."""

    snapshot: str
    target: str
    rekey: dict[str, str]
    max_parallelism: int | None
    form: str | None
    allow_non_restored: bool
    progress: str
    spark: bool | None


@contextmanager
def _forwarded(file: Path, progress: Progress) -> Iterator[None]:
    done = threading.Event()

    def look() -> None:
        last = None
        while not done.wait(_LOOK_EVERY_S):
            text = file.read_text(encoding="utf-8") if file.exists() else None
            if text and text != last:
                last = text
                progress(*json.loads(text))

    thread = threading.Thread(target=look, name="headgate-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# -- in the program's process


EngineOf = Callable[[MigrationRequest, CheckpointMetadata, Config], KeyedEngine | None]
"""Chooses the engine that writes a snapshot's keyed state; None: this process writes it."""
Inspector = Callable[[MigrationRequest, Sequence[Node], PhysicalPlan, Config], Answer[Rewritten]]


def inspector(engine_of: EngineOf) -> Inspector:
    """Return an inspector, for `migrate`, that rewrites a snapshot for the plan that was captured.
    `engine_of(request, metadata, settings)` chooses what writes the keyed state; None: this process.
    """
    return lambda request, _nodes, plan, config: answered(
        config, lambda: _rewritten(request, plan, config, engine_of)
    )


inspect: Final = inspector(lambda *_: None)


def _rewritten(
    request: MigrationRequest, plan: PhysicalPlan, config: Config, engine_of: EngineOf
) -> Rewritten:
    file, calls = Path(request["progress"]), count()

    def progress(what: str, done: int, of: int) -> None:
        # Called for each chunk of state; counted, as a look at a clock would not be cheaper than the report.
        if next(calls) % _CALLS_PER_REPORT == 0:
            replace(file, [json.dumps([what, done, of]).encode()], durable=False)

    functions, snapshot = _functions(request["rekey"], plan), request["snapshot"]
    metadata = open_checkpoint(snapshot)[1]
    change = Migration(metadata, plan, functions, request["max_parallelism"], request["allow_non_restored"])
    engine = engine_of(request, metadata, config)
    try:
        return rewrite(snapshot, request["target"], change, request["form"], progress, engine)
    except RecursionError as error:
        raise UsageError(f"the snapshot cannot be rewritten ({error})") from None


def _functions(names: Mapping[str, str], plan: PhysicalPlan) -> dict[str, Rekey]:
    keyed = {
        node.uid for vertex in plan.vertices for node in vertex.chain if isinstance(node, KeyedProcessNode)
    }
    found: dict[str, Rekey] = {}
    for uid, name in names.items():
        if uid not in keyed:
            listed = ", ".join(sorted(repr(one) for one in keyed)) or "none"
            raise UsageError(
                f"new keys are given for {uid!r}, which is no keyed operator of the program ({listed})"
            )
        function = getattr(sys.modules["__main__"], name, None)
        if not callable(function):
            raise UsageError(
                f"the program has no function {name!r}, which is to give the new keys of {uid!r}; define "
                "it at the top of the program's file"
            )
        found[uid] = _named(function, name)
    return found


def _named(function: Rekey, name: str) -> Rekey:
    def new_key(old: Hashable) -> Hashable:
        try:
            return function(old)
        except Exception as error:  # the user's code raises whatever it likes
            raise UsageError(
                f"function {name!r}, which gives new keys, raised {type(error).__name__} for key "
                f"{old!r:.80}: {error}"
            ) from error

    return new_key


_LISTS_OF: Final[Mapping[str, type[Node]]] = {SPLITS: SourceNode, WRITER: SinkNode, MARKS: TimestampsNode}
"""Name of a list -> the only kind of operator for which it is stored."""


class Migration(Change):
    """The change of a snapshot to what a program declares: types, keys, number of key groups.

    `rekey`: uid -> function from an old key to the new one. UsageError, unless `drop`, for stored state that
    the program lacks; with `drop` it is left behind.
    """

    def __init__(
        self,
        metadata: CheckpointMetadata,
        plan: PhysicalPlan,
        rekey: Mapping[str, Rekey],
        max_parallelism: int | None = None,
        drop: bool = False,
    ) -> None:
        self.max_parallelism = max_parallelism
        self._nodes = {node.uid or "": node for vertex in plan.vertices for node in vertex.chain}
        self._rekey, self._drop = rekey, drop
        self._targets = {
            uid: targets_of(declared_state(node.function))
            for uid, node in self._nodes.items()
            if isinstance(node, KeyedProcessNode)
        }
        lost = unclaimed_state(plan, metadata)
        if lost and not drop:
            raise UsageError(
                f"the snapshot holds {lost[0]}, or leave it behind with --allow-non-restored-state"
            )
        check_receivers(plan, metadata)

    def keeps(self, uid: str) -> bool:
        return uid in self._nodes

    def part(self, state: OperatorSubtaskState) -> OperatorSubtaskState:
        node = self._nodes[state.uid]
        lists = {
            name: entries
            for name, entries in state.list_state.items()
            if isinstance(node, _LISTS_OF.get(name, Node))
        }
        prepared = state.committables if isinstance(node, SinkNode) and publishes(node.sink) else []
        keyed = state.keyed if state.uid in self._targets else None
        return msgspec.structs.replace(state, keyed=keyed, list_state=lists, committables=prepared)

    def splits(self, uid: str) -> bool:
        return isinstance(self._nodes.get(uid), SourceNode)

    def values(self, uid: str) -> DeclaredValues:
        return DeclaredValues(self._targets.get(uid, {}), self._drop)

    def rekey(self, uid: str) -> Rekey | None:
        return self._rekey.get(uid)

    def operator_state(
        self, uid: str, state: OperatorSubtaskState, disk: Disk, write: WriteState
    ) -> list[OperatorStateHandle] | None:
        declared = self._declared(uid)
        held = [each for each in state.operator_state if each.name in declared or not self._drop]
        # Only what the snapshot has: an empty broadcast map counts at the next restore.
        names = {each.name for each in held}
        backend = OperatorStateBackend({name: one for name, one in declared.items() if name in names})
        backend.restore((each, read_handle(disk, each.handle)) for each in held)
        return backend.snapshot_sync().store(write)

    def state_types(self, uid: str, stored: StateTypes) -> StateTypes:
        keyed = self._targets.get(uid, {})
        types = {name: target.schema for name, target in keyed.items() if name not in TIMER_SECTIONS}
        return types | OperatorStateBackend(self._declared(uid)).state_types()

    def _declared(self, uid: str) -> dict[str, OperatorStateDescriptor]:
        return declared_operator_state(getattr(self._nodes[uid], "function", None))
