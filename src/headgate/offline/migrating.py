"""A snapshot rewritten to what a program declares, so that its restore is as is; keys may change on the way.

It runs where the program's classes are, in the process that captures its plan.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, TypedDict

import msgspec

from headgate.api.declared.keyed_states import declared_state
from headgate.api.declared.operator_state import declared_operator_state
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
from headgate.state.stored.values import DeclaredValues

_INSPECTOR: Final = "headgate.offline.migrating:inspect"
_LOOK_EVERY_S: Final = 0.2


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

    Types may change as a restore allows it. Beyond that keys may change here, by a function of the program:
    state and timers move to the key groups of the new keys. Two keys that would become one are refused.

    Args:
        snapshot: path or URI of a checkpoint or savepoint; it is only read.
        target: path or URI of a folder that is empty or not there.
        program: path of a Python file; it is run up to ``execute()`` in a process of its own, and starts no
            job.
        arguments: the program's own.
        options: ``key=value`` settings, as behind ``-D``; those of storages count for both places, too.
        rekey: uid of a keyed operator to the name of a function in the program, from an old key to the new
            one.
        max_parallelism: another number of key groups; None: it stays.
        form: "canonical" or "native"; None: that of a savepoint stays, a checkpoint becomes a native one.
        allow_non_restored: whether state that the program lacks is left behind.
        progress: is told what is done, how much of it, and of how much.
        inspector: what does it in the program's process; see `stateprocessor.ranges_rewriting.INSPECTOR`.
        spark: for an inspector that knows Spark: whether it is to be used; None: where the state is large.

    Raises:
        UsageError: program and snapshot do not fit, two keys would become one, or the program cannot be
        planned. StorageError: the snapshot is damaged, or a disk refused.
    """
    with storage_options(options), tempfile.TemporaryDirectory(prefix="headgate-offline-") as folder:
        refuse_unreadable(snapshot)
        told = Path(folder) / "progress"
        request = MigrationRequest(
            snapshot=absolute(snapshot),
            target=absolute(target),
            rekey=dict(rekey or {}),
            max_parallelism=max_parallelism,
            form=form,
            allow_non_restored=allow_non_restored,
            progress=str(told),
            spark=spark,
        )
        with nullcontext() if progress is None else _passed_on(told, progress):
            return asked(Rewritten, inspector, request, program, arguments, options, None)


class MigrationRequest(TypedDict):
    """What `migrate` asks of the program's process; `progress` is the file that it writes its progress to."""

    snapshot: str
    target: str
    rekey: dict[str, str]
    max_parallelism: int | None
    form: str | None
    allow_non_restored: bool
    progress: str
    spark: bool | None


@contextmanager
def _passed_on(file: Path, progress: Progress) -> Iterator[None]:
    """Within it, what the other process says of its progress is passed on."""
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
"""Chooses what writes the keyed state of a snapshot; None: this process does."""
Inspector = Callable[[MigrationRequest, Sequence[Node], PhysicalPlan, Config], Answer[Rewritten]]


def inspector(engine_of: EngineOf) -> Inspector:
    """What answers an inspection of `api.jobs.plan_capture` by rewriting the snapshot."""
    return lambda request, _nodes, plan, config: _inspected(request, plan, config, engine_of)


inspect: Final = inspector(lambda *_: None)


def _inspected(
    request: MigrationRequest, plan: PhysicalPlan, config: Config, engine_of: EngineOf
) -> Answer[Rewritten]:
    file, wait = Path(request["progress"]), _Wait()

    def progress(what: str, done: int, of: int) -> None:
        if wait.over():
            replace(file, [json.dumps([what, done, of]).encode()], durable=False)

    def rewritten() -> Rewritten:
        functions = _functions(request["rekey"], plan)
        snapshot = request["snapshot"]
        metadata = open_checkpoint(snapshot)[1]
        change = Migration(
            metadata, plan, functions, request["max_parallelism"], request["allow_non_restored"]
        )
        engine = engine_of(request, metadata, config)
        try:
            return rewrite(snapshot, request["target"], change, request["form"], progress, engine)
        except RecursionError as error:
            raise UsageError(f"the snapshot cannot be rewritten ({error})") from None

    return answered(config, rewritten)


class _Wait:
    """Whether it is time to say something again."""

    def __init__(self) -> None:
        self._calls = 0

    def over(self) -> bool:
        # A call per chunk of state; by the number, as a look at a clock would not be cheaper than telling.
        self._calls += 1
        return self._calls % 64 == 1


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
    """A function of new keys whose errors name it."""

    def new_key(old: Hashable) -> Hashable:
        try:
            return function(old)
        except Exception as error:  # the user's code raises whatever it likes
            raise UsageError(
                f"function {name!r}, which gives new keys, raised {type(error).__name__} for key "
                f"{old!r:.80}: {error}"
            ) from error

    return new_key


class Migration(Change):
    """A rewriting to what a program declares."""

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
        """See `rewriting.Change`."""
        return uid in self._nodes

    def part(self, state: OperatorSubtaskState) -> OperatorSubtaskState:
        """See `rewriting.Change`; what the operator is not there for any more is left behind."""
        node, lists = self._nodes[state.uid], dict(state.list_state)
        prepared, keyed = state.committables, state.keyed if state.uid in self._targets else None
        if not isinstance(node, SourceNode):
            lists.pop(SPLITS, None)
        if not isinstance(node, SinkNode):
            lists.pop(WRITER, None)
        if not isinstance(node, TimestampsNode):
            lists.pop(MARKS, None)
        if not (isinstance(node, SinkNode) and publishes(node.sink)):
            prepared = []
        return msgspec.structs.replace(state, keyed=keyed, list_state=lists, committables=prepared)

    def splits(self, uid: str) -> bool:
        """See `rewriting.Change`."""
        return isinstance(self._nodes.get(uid), SourceNode)

    def values(self, uid: str) -> DeclaredValues:
        """See `rewriting.Change`."""
        return DeclaredValues(self._targets.get(uid, {}), self._drop)

    def rekey(self, uid: str) -> Rekey | None:
        """See `rewriting.Change`."""
        return self._rekey.get(uid)

    def operator_state(
        self, uid: str, state: OperatorSubtaskState, disk: Disk, write: WriteState
    ) -> list[OperatorStateHandle] | None:
        """See `rewriting.Change`; each subtask's is restored and stored again as a job would."""
        declared = declared_operator_state(getattr(self._nodes[uid], "function", None))
        held = [each for each in state.operator_state if each.name in declared or not self._drop]
        # Only what was reported: an empty broadcast map counts at the next restore.
        names = {each.name for each in held}
        backend = OperatorStateBackend({name: one for name, one in declared.items() if name in names})
        backend.restore((each, read_handle(disk, each.handle)) for each in held)
        return backend.snapshot_sync().store(write)

    def state_types(self, uid: str, stored: StateTypes) -> StateTypes:
        """See `rewriting.Change`."""
        keyed = self._targets.get(uid, {})
        types = {name: target.schema for name, target in keyed.items() if name not in TIMER_SECTIONS}
        node = self._nodes[uid]
        return (
            types
            | OperatorStateBackend(declared_operator_state(getattr(node, "function", None))).state_types()
        )
