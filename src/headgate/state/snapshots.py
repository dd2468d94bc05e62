"""What a snapshot is made of: handles to bytes, per operator and subtask, as plain data.

These structures travel in acknowledgements and are stored in checkpoint metadata, so they hold no
code and encode with msgspec. How state becomes bytes is the backend's business; how they reach a
disk is the checkpoint package's.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Inline(msgspec.Struct, frozen=True, tag="inline"):
    """Bytes small enough to live in the metadata itself."""

    data: bytes


class FileRange(msgspec.Struct, frozen=True, tag="file"):
    """Bytes in a checkpoint's data file.

    Attributes:
        file: name relative to the storage root.
        crc32: their checksum; verified before anything decodes them.
    """

    file: str
    offset: int
    length: int
    crc32: int


StateHandle = Inline | FileRange


def size_of(handle: StateHandle) -> int:
    """How many bytes it stands for."""
    return len(handle.data) if isinstance(handle, Inline) else handle.length


def place_of(handle: StateHandle) -> str:
    """What errors call its bytes: by file and offset.

    Example:
        >>> place_of(FileRange("job/chk-1/a", 8, 4, 0)), place_of(Inline(b"abc"))
        ('bytes 8 to 12 of job/chk-1/a', '3 bytes in the metadata')
    """
    if isinstance(handle, Inline):
        return f"{len(handle.data)} bytes in the metadata"
    return f"bytes {handle.offset} to {handle.offset + handle.length} of {handle.file}"


class NativeFiles(msgspec.Struct, frozen=True):
    """Keyed state in the files of its backend, as they are.

    Attributes:
        backend: whose files: the name of the backend in the configuration.
        files: name in the backend's own folder -> where the bytes are. Files may be those of an
            earlier checkpoint.
        details: what the backend has to know besides, as plain data.
    """

    backend: str
    files: dict[str, StateHandle]
    details: dict[str, Any] = {}


class StateTable(msgspec.Struct, frozen=True):
    """One state of one operator subtask, or all its timers, as a Parquet file of the canonical format.

    Attributes:
        name: of the state; "timers:all" for the timers.
        file: its name relative to the folder of the savepoint's `_metadata`.
        crc32: their checksum; verified before anything decodes them.
    """

    name: str
    file: str
    length: int
    crc32: int

    def range(self) -> FileRange:
        """The whole file, as other bytes in files are referred to."""
        return FileRange(self.file, 0, self.length, self.crc32)


class KeyedStateHandle(msgspec.Struct, frozen=True):
    """All keyed state and timers of one operator subtask.

    It is what the blob holds; beside it what native files hold; then what the log changed, in order. In a
    savepoint of the canonical format it is what the tables hold, and nothing else.

    Attributes:
        last_group: last key group inside (inclusive).
        handle: where the blob is, which can be read by key group.
        size: bytes that all of it takes, those of earlier checkpoints' files included.
        native: the states that are kept in the backend's own files, and not in the blob.
        log: changes since the blob was written, oldest first; some may be of earlier checkpoints.
        tables: of a savepoint in the canonical format, each state that holds something as a file, in place
            of the blob, which is empty; None otherwise.
        key_types: the types of all keys that were seen, as `common.key_types.stored_shapes` gives them; empty
            where the operator has neither state nor timers; None: not known, the stored keys themselves tell.
    """

    first_group: int
    last_group: int
    handle: StateHandle
    size: int
    native: NativeFiles | None = None
    log: list[StateHandle] = []
    tables: list[StateTable] | None = None
    key_types: list[Any] | None = None

    def handles(self) -> list[StateHandle]:
        """Everything that it refers to."""
        if self.tables is not None:
            return [table.range() for table in self.tables]
        native = [] if self.native is None else list(self.native.files.values())
        return [self.handle, *native, *self.log]


class OperatorStateHandle(msgspec.Struct, frozen=True):
    """One operator state of one subtask: a list of elements, or of a broadcast state's entries.

    Attributes:
        mode: how it is dealt out when the parallelism changes: "split", "union" or "broadcast".
        schema: description of the elements' serializers.
        handle: where all elements are, as one blob.
        count: how many they are.
        first: the first one that is meant.
        stop: behind the last one that is meant; None: all from `first` on.
    """

    name: str
    mode: str
    schema: Any
    handle: StateHandle
    count: int
    first: int = 0
    stop: int | None = None


class OperatorSubtaskState(msgspec.Struct, frozen=True):
    """What one subtask of one operator contributes to a checkpoint.

    Attributes:
        keyed: its keyed state and timers, if it has any.
        list_state: named lists of plain values, shared out round-robin when the parallelism changes
            (a source's splits under ``"splits"``, a sink writer's state under ``"writer"``).
        committables: what a sink writer prepared; published once the checkpoint is in the log.
        watermark: the operator's event-time clock at the cut, in ms; None when it has none.
        firing_to: event time up to which timers were about to fire, in ms; None when none was due.
        operator_state: the states of the subtask that belong to no key.
    """

    uid: str
    keyed: KeyedStateHandle | None = None
    list_state: dict[str, list[Any]] = {}
    committables: list[Any] = []
    watermark: int | None = None
    firing_to: int | None = None
    operator_state: list[OperatorStateHandle] = []

    def handles(self) -> list[StateHandle]:
        """Everything that it refers to."""
        keyed = [] if self.keyed is None else self.keyed.handles()
        return [*keyed, *(state.handle for state in self.operator_state)]

    def size(self) -> int:
        """Bytes that its state takes, those of earlier checkpoints' files included."""
        keyed = 0 if self.keyed is None else self.keyed.size
        return keyed + sum(size_of(state.handle) for state in self.operator_state)


class InFlightPart(msgspec.Struct, frozen=True):
    """Some elements of a stream, in order, as one blob.

    Attributes:
        records: how many records it holds; watermarks are not counted.
    """

    handle: StateHandle
    size: int
    records: int


class InFlightStream(msgspec.Struct, frozen=True):
    """What was under way on one channel when an unaligned checkpoint was drawn.

    The records between two subtasks are told by their ends and kept as records, so that another
    parallelism or another number of exchanges only means another way for them.

    Attributes:
        receiver: uid of the operator that would have taken the records in.
        sender: uid of the operator that emitted them.
        tag: the side output they came from, or None.
        level: those of a lower level come first: records that were in flight in the restored
            checkpoint already, and still are, precede what was emitted since.
        from_output: found on the sender's side; follows what the same channel had on the receiver's.
        keyed: whether each record has its key group beside it.
        watermark: the channel's event time where the stream begins, in ms; None when that is
            wherever the level below ends.
        idle: whether the channel was idle there.
        record_type: description of the serializer of typed records, or None.
        lineage: tells streams apart that have the same ends: those of several old receivers that one
            subtask took over and could not finish keep their own order and their own event time.
        former: whether `sender_subtask` counts the sender's copies at an earlier parallelism, so that
            no running copy continues this stream; it is negative where the stream stands for several.
    """

    receiver: str
    sender: str
    tag: str | None
    sender_subtask: int
    receiver_subtask: int
    level: int = 0
    from_output: bool = False
    keyed: bool = False
    parts: list[InFlightPart] = []
    watermark: int | None = None
    idle: bool = False
    record_type: Any = None
    lineage: int = 0
    former: bool = False


class InFlightShare(msgspec.Struct, frozen=True):
    """The part of a stream that one subtask of the restored job takes over.

    Attributes:
        turn: of a stream that is dealt out, the first batch that it takes.
        of: how many subtasks take turns; 1: everything is taken.
    """

    stream: InFlightStream
    first_group: int | None = None
    last_group: int | None = None
    turn: int = 0
    of: int = 1


class SubtaskSnapshot(msgspec.Struct, frozen=True):
    """The acknowledgement of one subtask: its chained operators and how long the cut took.

    Attributes:
        vertex: the chain's number in the physical graph.
        operators: one entry for each operator of the chain that has something to say.
        state_types: operator uid -> state name -> description of its serializer.
        start_delay_ms: from the trigger to the first barrier.
        alignment_ms: from the first to the last barrier.
        async_ms: writing beside the loop.
        bytes_shared: bytes of completed checkpoints' files that this one refers to.
        files_shared: how many files of completed checkpoints it refers to.
        records_in: records taken in up to the cut, since the attempt began.
        records_out: records emitted up to the cut, since the attempt began.
        in_flight: records that an unaligned checkpoint took along.
        finished: whether the subtask had processed all its input.
        unaligned: whether the barrier overtook records here.
        bytes_processed: bytes of records read between the first barrier and the last.
        bytes_persisted: bytes of records in flight that were stored.
        slowest_channel: "uid[subtask]" of the sender whose barrier came last, or None.
    """

    vertex: int
    subtask: int
    operators: list[OperatorSubtaskState]
    state_types: dict[str, dict[str, Any]] = {}
    start_delay_ms: float = 0.0
    alignment_ms: float = 0.0
    sync_ms: float = 0.0
    async_ms: float = 0.0
    bytes_written: int = 0
    records_in: int = 0
    records_out: int = 0
    in_flight: list[InFlightStream] = []
    finished: bool = False
    unaligned: bool = False
    bytes_processed: int = 0
    bytes_persisted: int = 0
    slowest_channel: str | None = None
    files_written: int = 0
    bytes_shared: int = 0
    files_shared: int = 0


class SnapshotFork(msgspec.Struct, frozen=True):
    """A snapshot that a job began from; see `api.sink.Fork`."""

    job: str
    generation: int
    attempt: int
    checkpoint: int


class CheckpointMetadata(msgspec.Struct, frozen=True):
    """A completed checkpoint, whole: what `_metadata` holds.

    Attributes:
        generation: of the job master that completed it.
        attempt: the deployment it was drawn in.
        trigger_ms: wall clock at the trigger.
        max_parallelism: number of key groups; baked into the stored bytes.
        format_fingerprint: of everything else that is baked in (`common/format_config.py`).
        parallelism: operator uid -> number of subtasks at the time.
        operators: operator uid -> states of its subtasks, ordered by subtask.
        enumerators: source uid -> state of its split enumerator.
        totals: "vertex's operators, joined" -> records in and out since the job first began.
        state_types: operator uid -> state name -> description of its serializer.
        in_flight: records that were under way; empty unless barriers overtook some.
        finished: operator uid -> subtasks that had processed all their input.
        kind: "checkpoint", whose file names are relative to the storage root, or "savepoint", whose file
            names are relative to the folder of its `_metadata`.
        format: of a savepoint, "canonical" or "native"; None for a checkpoint.
        origin: URI of the snapshot that this one was made from while no job ran; None: a job drew it.
        lineage: id of the line that the job's output goes on; None in what was written before there were
            lines.
        forks: the snapshots that the job descends from, oldest first.
    """

    job: str
    job_name: str
    checkpoint: int
    generation: int
    attempt: int
    trigger_ms: int
    max_parallelism: int
    format_fingerprint: str
    parallelism: dict[str, int]
    operators: dict[str, list[OperatorSubtaskState]]
    enumerators: dict[str, Any]
    state_types: dict[str, dict[str, Any]]
    totals: dict[str, tuple[int, int]] = {}
    in_flight: list[InFlightStream] = []
    finished: dict[str, list[int]] = {}
    kind: str = "checkpoint"
    format: str | None = None
    origin: str | None = None
    lineage: str | None = None
    forks: list[SnapshotFork] = []
