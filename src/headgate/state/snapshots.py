"""The data structures of a snapshot: handles to stored bytes, per operator and subtask.

They travel in acknowledgements and are stored in checkpoint metadata, so they hold no code and encode with
msgspec. How state becomes bytes is the backend's business; how they reach a disk is the checkpoint package's.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Inline(msgspec.Struct, frozen=True, tag="inline"):
    """Stored bytes small enough to be kept in the checkpoint's metadata itself."""

    data: bytes


class FileRange(msgspec.Struct, frozen=True, tag="file"):
    """The place of stored bytes: a data file, relative to the storage root, range in it, and checksum."""

    file: str  # name relative to the storage root
    offset: int
    length: int
    crc32: int  # verified before anything decodes the bytes


StateHandle = Inline | FileRange


def size_of(handle: StateHandle) -> int:
    return len(handle.data) if isinstance(handle, Inline) else handle.length


def place_of(handle: StateHandle) -> str:
    # for errors
    if isinstance(handle, Inline):
        return f"{len(handle.data)} bytes in the metadata"
    return f"bytes {handle.offset} to {handle.offset + handle.length} of {handle.file}"


class NativeFiles(msgspec.Struct, frozen=True):
    """A subtask's keyed state as RocksDB's own files, by name; some may belong to an earlier checkpoint."""

    backend: str  # name of the backend in the configuration
    files: dict[str, StateHandle]  # by name in the backend's own folder
    details: dict[str, Any] = {}  # what the backend has to know besides, as plain data


class StateTable(msgspec.Struct, frozen=True):
    """One state of one operator subtask, or all its timers, as a Parquet file of the canonical format."""

    name: str  # of the state; "timers:all" for the timers
    file: str  # its name relative to the folder of the savepoint's `_metadata`
    length: int
    crc32: int  # verified before anything decodes the bytes

    def range(self) -> FileRange:
        return FileRange(self.file, 0, self.length, self.crc32)


class KeyedStateHandle(msgspec.Struct, frozen=True):
    """The places of all keyed state and timers that one operator subtask stored in a checkpoint.

    The state is in the blob and in the native files next to it, changed by the log, in order. In a savepoint
    of the canonical format it is in the tables alone.
    """

    first_group: int
    last_group: int  # inclusive
    handle: StateHandle  # the blob, which can be read by key group
    size: int  # bytes that all of it takes, those of earlier checkpoints' files included
    native: NativeFiles | None = None  # the states that are kept in the backend's own files, not in the blob
    log: list[StateHandle] = []  # changes since the blob, oldest first; some may be of earlier checkpoints
    tables: list[StateTable] | None = None  # of the canonical format, in place of the blob, which is empty
    # The types of all keys that were seen, made plain by `common.keys.key_types.stored_shapes`; empty if the
    # operator has neither state nor timers; None: not known, the stored keys themselves have to be read.
    key_types: list[Any] | None = None

    def handles(self) -> list[StateHandle]:
        """Return the handles of all stored bytes that the subtask's keyed state consists of."""
        if self.tables is not None:
            return [table.range() for table in self.tables]
        native = [] if self.native is None else list(self.native.files.values())
        return [self.handle, *native, *self.log]


class OperatorStateHandle(msgspec.Struct, frozen=True):
    """A subtask's stored operator state, redistributed by `mode`; elements `first` to before `stop` count."""

    name: str
    mode: str  # how it is redistributed when the parallelism changes: "split", "union" or "broadcast"
    schema: Any  # description of the elements' serializers
    handle: StateHandle  # all elements, as one blob
    count: int  # number of all elements
    first: int = 0  # the first element that is meant
    stop: int | None = None  # after the last element that is meant; None: all from `first` on


class OperatorSubtaskState(msgspec.Struct, frozen=True):
    """The state that one subtask of one operator contributes to a checkpoint."""

    uid: str
    keyed: KeyedStateHandle | None = None  # its keyed state and timers
    # Named lists of plain values, shared out round-robin when the parallelism changes (a source's splits
    # under "splits", a sink writer's state under "writer").
    list_state: dict[str, list[Any]] = {}
    committables: list[Any] = []  # what a sink writer prepared; published once the checkpoint is in the log
    watermark: int | None = None  # the operator's event-time clock at the snapshot point, in ms
    firing_to: int | None = (
        None  # event time up to which timers were about to fire, in ms; None: none was due
    )
    operator_state: list[OperatorStateHandle] = []  # the states of the subtask that belong to no key

    def handles(self) -> list[StateHandle]:
        keyed = [] if self.keyed is None else self.keyed.handles()
        return [*keyed, *(state.handle for state in self.operator_state)]

    def size(self) -> int:
        # with the bytes in files of earlier checkpoints
        keyed = 0 if self.keyed is None else self.keyed.size
        return keyed + sum(size_of(state.handle) for state in self.operator_state)


class InFlightPart(msgspec.Struct, frozen=True):
    """A blob of consecutive records and watermarks of one stream in flight; `records` counts records only."""

    handle: StateHandle
    size: int  # in bytes
    records: int


class InFlightStream(msgspec.Struct, frozen=True):
    """The records in flight on one channel between two subtasks when an unaligned checkpoint was taken.

    They are identified by sender and receiver and kept as records, so that after a change of the parallelism
    or of the exchanges they only take another way.

    Streams of a lower `level` come first: records that were in flight in the restored checkpoint already, and
    still are, precede what was emitted since. A stream `from_output` was found on the sender's side and
    follows what the same channel had on the receiver's. `lineage` distinguishes streams that have the same
    ends: those of several old receivers that one subtask took over and could not finish keep their own order
    and event time.
    """

    receiver: str  # uid of the operator that would have taken the records in
    sender: str  # uid of the operator that emitted them
    tag: str | None  # the side output they came from
    sender_subtask: int
    receiver_subtask: int
    level: int = 0
    from_output: bool = False
    keyed: bool = False  # whether each record is stored with its key group
    parts: list[InFlightPart] = []
    watermark: int | None = (
        None  # event time where the stream begins, in ms; None: where the level below ends
    )
    idle: bool = False  # whether the channel was idle there
    record_type: Any = None  # description of the serializer of typed records
    lineage: int = 0
    # Whether `sender_subtask` counts the sender's copies at an earlier parallelism, so that no running copy
    # continues this stream; it is negative where the stream stands for several.
    former: bool = False


class InFlightShare(msgspec.Struct, frozen=True):
    """A stream in flight and the part that a restored subtask takes: key groups, or every `of`-th batch.
    First and last group (inclusive) are None unless the stream is divided by key group.
    """

    stream: InFlightStream
    first_group: int | None = None
    last_group: int | None = None
    turn: int = 0  # of a stream that is dealt out, the first batch that it takes
    of: int = 1  # how many subtasks take turns; 1: everything is taken


class SubtaskSnapshot(msgspec.Struct, frozen=True):
    """The acknowledgement of a checkpoint by one subtask: state of its chained operators, durations, counts.

    Records are counted from the begin of the attempt to the snapshot point.
    """

    vertex: int  # the chain's number in the physical graph
    subtask: int
    operators: list[OperatorSubtaskState]  # one for each operator of the chain that stores something
    state_types: dict[str, dict[str, Any]] = {}  # operator uid -> state name -> description of its serializer
    start_delay_ms: float = 0.0  # from the trigger to the first barrier
    alignment_ms: float = 0.0  # from the first to the last barrier
    sync_ms: float = 0.0
    async_ms: float = 0.0  # writing in the background
    bytes_written: int = 0
    records_in: int = 0
    records_out: int = 0
    in_flight: list[InFlightStream] = []  # records that an unaligned checkpoint took along
    finished: bool = False  # whether the subtask had processed all its input
    unaligned: bool = False  # whether the barrier overtook records here
    bytes_processed: int = 0  # of records read between the first barrier and the last
    bytes_persisted: int = 0  # of records in flight that were stored
    slowest_channel: str | None = None  # "uid[subtask]" of the sender whose barrier came last
    files_written: int = 0
    bytes_shared: int = 0  # of files of completed checkpoints that this one refers to
    files_shared: int = 0


class SnapshotFork(msgspec.Struct, frozen=True):
    """A snapshot from which a job was started, identified by the job, generation and attempt that took it."""

    job: str  # id of the job that took it
    generation: int  # of that job's master
    attempt: int  # the deployment that it was taken in
    checkpoint: int  # its number


class CheckpointMetadata(msgspec.Struct, frozen=True):
    """The metadata of a completed checkpoint or savepoint: everything that its file `_metadata` holds.

    Its `kind` is "checkpoint", whose file names are relative to the storage root, or "savepoint", whose file
    names are relative to the folder of its `_metadata`; a savepoint has a `format`, "canonical" or "native".
    """

    job: str
    job_name: str
    checkpoint: int
    generation: int  # of the job master that completed it
    attempt: int  # the deployment that it was taken in
    trigger_ms: int  # wall clock at the trigger
    max_parallelism: int  # number of key groups; baked into the stored bytes
    format_fingerprint: str  # of everything else that is baked in (`common/format_config.py`)
    parallelism: dict[str, int]  # operator uid -> number of subtasks at the time
    operators: dict[str, list[OperatorSubtaskState]]  # operator uid -> states of its subtasks, in their order
    enumerators: dict[str, Any]  # source uid -> state of its split enumerator
    state_types: dict[str, dict[str, Any]]  # operator uid -> state name -> description of its serializer
    totals: dict[str, tuple[int, int]] = {}  # "vertex's operators, joined" -> records in and out of the job
    in_flight: list[InFlightStream] = []  # empty unless barriers overtook records
    finished: dict[str, list[int]] = {}  # operator uid -> subtasks that had processed all their input
    kind: str = "checkpoint"
    format: str | None = None
    origin: str | None = None  # URI of the snapshot that this one was made from while no job ran
    lineage: str | None = None  # id of the lineage of the job's output; None in what older versions wrote
    forks: list[SnapshotFork] = []  # the snapshots that the job descends from, oldest first
