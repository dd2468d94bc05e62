"""Builds the live subtasks of a worker from the shipped plan: chains, channels and restored state."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headgate.checkpoint.data_files import read_handle
from headgate.common.errors import InternalError, ProtocolError
from headgate.common.ids import ChannelId, EdgeId, SubtaskId, SubtaskIndex
from headgate.common.ports import Disk
from headgate.core.alignment.factory import make_handler
from headgate.graph.guarantees import always_aligned, late_vertices
from headgate.graph.logical import Node
from headgate.graph.marked_sources import has_marks
from headgate.graph.partitioners import Forward
from headgate.graph.physical import Edge, PhysicalPlan, Vertex
from headgate.records.batch import Batch
from headgate.records.detach import detached
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.shipped_program import Program
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Event
from headgate.runtime.protocol.frames import Frame, FrameKind
from headgate.runtime.protocol.messages import Deploy, SlowRecords, WriterMessage
from headgate.runtime.protocol.undeclared_rows import UndeclaredRows
from headgate.runtime.worker.exchange.output import EdgeEnds, EdgeReceiver, OutputChannel, OutputEdge, Outputs
from headgate.runtime.worker.exchange.remote_channel import Between, RemoteLane
from headgate.runtime.worker.in_flight.catalog import StreamCatalog
from headgate.runtime.worker.in_flight.channels import PartReader, prefetched
from headgate.runtime.worker.in_flight.recovered import RecoveredInput
from headgate.runtime.worker.operator_chain import build_chain
from headgate.runtime.worker.operators.operator_contract import Receiver
from headgate.runtime.worker.operators.source_alignment import SourceAlignment
from headgate.runtime.worker.snapshot.finishing import AttemptServices
from headgate.runtime.worker.task.chain_runner import ChainRunner, CollectedOutput, OnThread
from headgate.runtime.worker.task.gate_task import GateTask, InputChannel
from headgate.runtime.worker.task.marked_tasks import MarkedGateTask, source_task
from headgate.runtime.worker.task.measuring import Wanted
from headgate.runtime.worker.task.posted_thread import PostedThread
from headgate.runtime.worker.task.step_budget import StepBudget
from headgate.runtime.worker.task.task import Task, TaskParts
from headgate.runtime.worker.worker_ports import WorkerPorts
from headgate.state.backends import ChangelogBackends, StateBackends, backends_for
from headgate.state.snapshots import InFlightShare

_CREDIT = struct.Struct("<I")


@dataclass(slots=True)
class LocalLane:
    """The send queue to input number `channel` of `task`, in this process: encodes nothing, copies rows."""

    task: GateTask
    channel: int

    def deliver(self, element: Batch | Event) -> None:
        if isinstance(element, RowBatch):
            element = detached(element)
        self.task.deliver(self.channel, element)


@dataclass(slots=True)
class Exchange:
    """The channels of all subtasks of one worker in an attempt; passes each received frame to its channel."""

    outgoing: dict[ChannelId, OutputChannel] = field(default_factory=dict)
    incoming: dict[ChannelId, tuple[GateTask, int, ElementCodec]] = field(default_factory=dict)

    def arrived(self, slot: int, frame: Frame) -> None:
        """Pass a frame from the worker of `slot` to its channel: an element to the receiving subtask, or
        credit. Raises ProtocolError if that worker has no such channel here.
        """
        channel = ChannelId(EdgeId(frame.edge), SubtaskIndex(frame.sender), SubtaskIndex(frame.receiver))
        if frame.kind is FrameKind.CREDIT:
            output = self.outgoing.get(channel)
            if output is None or frame.receiver != slot:
                raise ProtocolError(
                    f"slot {slot} granted credit on {channel}, which it does not receive from here"
                )
            output.grant(_CREDIT.unpack(frame.payload())[0])
            return
        entry = self.incoming.get(channel)
        if entry is None or frame.sender != slot:
            raise ProtocolError(f"slot {slot} sent a frame on {channel}, which is none of its channels")
        task, index, codec = entry
        task.deliver(index, codec.decode(frame.kind, memoryview(frame.payload())))


@dataclass(frozen=True, slots=True)
class Assembly:
    """The live subtasks of one attempt in one worker, in the order of their turns: downstream first."""

    tasks: Mapping[SubtaskId, Task]  # downstream first, so that queues drain before they fill
    exchange: Exchange  # dispatches frames from peers
    alignment: SourceAlignment  # of the sources here, with those of other workers


class Assembler:
    """Builds the subtasks of one worker for an attempt: number `slot` of every vertex that has so many.
    `deploy` has the attempt and the restored state, whose files are on `disk` (None: it has no files). The
    subtasks share `services` (clock, reports, writing of snapshots) and the worker's `ports`.
    """

    def __init__(
        self,
        program: Program,
        slot: int,
        deploy: Deploy,
        services: AttemptServices,
        ports: WorkerPorts,
        disk: Disk | None,
    ) -> None:
        self._program, self._plan, self._slot = program, program.plan, slot
        self._deploy, self._services, self._ports, self._disk = deploy, services, ports, disk
        self._restored = {(v, s): states for v, s, states in deploy.restored}
        self._in_flight = {(v, s): shares for v, s, shares in deploy.in_flight}
        self._catalog = StreamCatalog(program)
        self._late, self._marks = late_vertices(self._plan), has_marks(self._plan)
        settings = program.settings
        backends = backends_for(
            settings.state_backend,
            settings.rocksdb_memory_bytes,
            settings.rocksdb_local_dir,
            settings.incremental,
            timers_on_disk=settings.rocksdb_timers,
            eager_migration=settings.rocksdb_eager_migration,
            windows_bytes=settings.rocksdb_windows_bytes,
            statistics=settings.rocksdb_statistics,
        )
        self._backends: StateBackends = backends
        if settings.changelog:
            interval, restored = settings.changelog_materialize_ms, deploy.restored_checkpoint or 0
            self._backends = ChangelogBackends(backends, interval, ports.clock, restored)
        undeclared = UndeclaredRows(
            ports.code,
            deploy.program,
            lambda name, pickled: ports.link.send(SlowRecords(deploy.attempt, name, pickled)),
        )
        types = program.record_types
        self._codecs = {e.id: ElementCodec(types.get(e.id), undeclared) for e in self._plan.edges}
        self._wanted = Wanted(deploy.numbers, deploy.histograms)
        self._tasks: dict[SubtaskId, Task] = {}
        self._exchange = Exchange()

    def build(self) -> Assembly:
        """Create the subtasks, connected and with restored state, not opened; call it once.
        Raises StorageError if in-flight records cannot be read.
        """
        # Receivers first: a local lane needs its receiving task.
        here = [vertex for vertex in self._plan.vertices if self._slot < vertex.parallelism]
        for vertex in reversed(here):
            self._tasks[self._id(vertex)] = self._task(vertex)
        for vertex in here:
            self._connect_inputs(vertex)
        operators = [each for task in self._tasks.values() for each in task.operators]
        return Assembly(self._tasks, self._exchange, SourceAlignment(operators, self._plan.slots == 1))

    def _id(self, vertex: Vertex) -> SubtaskId:
        return SubtaskId(vertex.id, SubtaskIndex(self._slot))

    def _task(self, vertex: Vertex) -> Task:
        settings = self._program.settings
        outputs = Outputs(settings.buffer_timeout_ms)
        main, sides = self._receivers(vertex, outputs)
        runner: Callable[[StepBudget], ChainRunner] = ChainRunner
        if vertex.chain[0].blocking:
            collected = CollectedOutput()
            main, sides = collected.before(main), {at: collected.before(side) for at, side in sides.items()}
            runner = self._on_thread(vertex, collected)
        shares = self._in_flight.get((vertex.id, self._slot), [])
        nodes = {node.known_as: at for at, node in enumerate(vertex.chain)}
        entries = {nodes[share.stream.receiver] for share in shares}
        chain = build_chain(
            vertex, self._context_of(vertex), main, sides, entries, self._ports.code.refuse_leaving
        )
        recovered = self._recovered_input(shares, lambda uid: chain.places[nodes[uid]])
        services, target_ms = self._services, settings.step_target_ms
        made = self._id(vertex), chain.operators, outputs, services, target_ms, recovered, runner
        parts = TaskParts(*made, self._wanted)
        senders = self._senders(vertex)
        if not senders:
            finished = (vertex.id, self._slot) in self._deploy.finished
            return source_task(parts, settings.mark_interval_ms, finished=finished)
        channels = [self._input_channel(edge, sender) for edge, sender in senders]
        handler = make_handler(
            len(channels),
            exactly_once=settings.exactly_once,
            unaligned=settings.unaligned,
            forced=frozenset(i for i, (edge, _) in enumerate(senders) if always_aligned(edge)),
            awaited=frozenset(i for i, (edge, _) in enumerate(senders) if edge.source in self._late),
        )
        return (MarkedGateTask if self._marks else GateTask)(parts, channels, handler)

    def _on_thread(self, vertex: Vertex, collected: CollectedOutput) -> Callable[[StepBudget], ChainRunner]:
        ports, name = self._ports, f"headgate-blocking-{vertex.chain[0].known_as}-{self._slot}"
        return lambda budget: OnThread(
            lambda: ports.user_thread(name), ports.post, collected, ports.clock, budget
        )

    def _recovered_input(
        self, shares: Sequence[InFlightShare], position_of: Callable[[str], int]
    ) -> RecoveredInput | None:
        if not shares:
            return None
        disk = self._disk
        if disk is None:
            raise InternalError("records in flight were restored without the storage that they lie in")
        reader = PartReader(
            lambda stream: self._catalog.codec_of(stream.sender, stream.tag),
            prefetched(lambda handle: read_handle(disk, handle), shares),
            self._plan.max_parallelism,
        )
        return RecoveredInput(shares, position_of, reader, self._slot)

    def _receivers(
        self, vertex: Vertex, outputs: Outputs
    ) -> tuple[Receiver, dict[tuple[int, str], Receiver]]:
        mains: list[OutputEdge] = []
        sides: dict[tuple[int, str], list[OutputEdge]] = {}
        for edge in self._plan.outputs(vertex.id):
            made = self._output_edge(edge)
            outputs.edges.append(made)
            group = mains if edge.tag is None else sides.setdefault((edge.operator, edge.tag), [])
            group.append(made)
        main = EdgeReceiver(outputs, mains, True)
        return main, {at: EdgeReceiver(outputs, group, False) for at, group in sides.items()}

    def _output_edge(self, edge: Edge) -> OutputEdge:
        target = self._plan.vertices[edge.target]
        forward = isinstance(edge.partitioner, Forward)
        receivers = [self._slot] if forward else range(target.parallelism)
        channels = [self._output_channel(edge, receiver) for receiver in receivers]
        receiver, ends = self._context_of(target)(target.chain[0]), edge_ends(self._plan, edge)
        parallelism = self._plan.max_parallelism
        return OutputEdge(edge.partitioner, channels, parallelism, self._slot, receiver, ends, receivers)

    def _output_channel(self, edge: Edge, receiver: int) -> OutputChannel:
        name = ChannelId(edge.id, SubtaskIndex(self._slot), SubtaskIndex(receiver))
        if receiver == self._slot:
            task = self._tasks[self._id(self._plan.vertices[edge.target])]
            assert isinstance(task, GateTask)
            index = self._senders(self._plan.vertices[edge.target]).index((edge, self._slot))
            lane: LocalLane | RemoteLane = LocalLane(task, index)
        else:
            lane = RemoteLane(self._ports.data, receiver, name, self._codecs[edge.id], self._between(edge))
        channel = OutputChannel(lane, self._program.settings.credit_initial, withheld=True)
        self._exchange.outgoing[name] = channel
        return channel

    def _between(self, edge: Edge) -> Between:
        source, target = self._plan.vertices[edge.source], self._plan.vertices[edge.target]
        sender = self._context_of(source)(source.chain[edge.operator]).label
        receiver = self._context_of(target)(target.chain[0]).label
        return Between(sender, receiver, self._program.settings.frame_size_max)

    def _input_channel(self, edge: Edge, sender: int) -> InputChannel:
        name = ChannelId(edge.id, SubtaskIndex(sender), SubtaskIndex(self._slot))
        credit, ends = self._program.settings.credit_initial, edge_ends(self._plan, edge)
        return InputChannel(credit, self._credit_return(name), ends, sender, edge.side, withheld=True)

    def _credit_return(self, name: ChannelId) -> Callable[[int], None]:
        if name.sender == self._slot:
            return lambda frames: self._exchange.outgoing[name].grant(frames)
        data = self._ports.data
        return lambda frames: data.send(name.sender, Frame(FrameKind.CREDIT, *name, [_CREDIT.pack(frames)]))

    def _senders(self, vertex: Vertex) -> list[tuple[Edge, int]]:
        senders: list[tuple[Edge, int]] = []
        for edge in self._plan.inputs(vertex.id):
            count = self._plan.vertices[edge.source].parallelism
            numbers = [self._slot] if isinstance(edge.partitioner, Forward) else range(count)
            senders.extend((edge, sender) for sender in numbers)
        return senders

    def _connect_inputs(self, vertex: Vertex) -> None:
        task = self._tasks[self._id(vertex)]
        for index, (edge, sender) in enumerate(self._senders(vertex)):
            if not isinstance(task, GateTask):
                raise InternalError(f"vertex {vertex.id} has inputs but begins with a source")
            name = ChannelId(edge.id, SubtaskIndex(sender), SubtaskIndex(self._slot))
            self._exchange.incoming[name] = (task, index, self._codecs[edge.id])

    def _context_of(self, vertex: Vertex) -> Callable[[Node], OperatorContext]:
        states = self._restored.get((vertex.id, self._slot), [])
        ports, link, attempt = self._ports, self._ports.link, self._deploy.attempt

        def context(node: Node) -> OperatorContext:
            uid = node.known_as
            return OperatorContext(
                uid=uid,
                name=node.name,
                subtask=self._slot,
                parallelism=vertex.parallelism,
                attempt=attempt,
                job=self._program.job,
                max_parallelism=self._plan.max_parallelism,
                clock=self._ports.clock,
                restored=[state for state in states if state.uid == uid],
                disk=self._disk,
                step_target_ms=self._program.settings.step_target_ms,
                backends=self._backends,
                ignore_unclaimed=self._program.settings.ignore_unclaimed,
                failing_records=self._program.settings.failing_records,
                eager=self._program.settings.eager,
                generation=self._deploy.generation,
                tell=lambda uid, subtask, data: link.send(WriterMessage(attempt, uid, subtask, data)),
                event_loop=lambda name, ended: ports.event_loop(name, ports.code, ports.post, ended),
                thread=lambda name: PostedThread(ports.user_thread(name), ports.post),
            )

        return context


def edge_ends(plan: PhysicalPlan, edge: Edge) -> EdgeEnds:
    """Return the identity of `edge` of `plan` in checkpoints: uids, which outlive a change of the plan.
    A stream that is united with itself reaches its receiver by several exchanges. Each has its own event
    time, so they are numbered, and their in-flight records are stored separately.
    """
    sender = plan.vertices[edge.source].chain[edge.operator]
    receiver = plan.vertices[edge.target].chain[0]
    ends = (edge.operator, edge.tag, edge.target)
    same = [e.id for e in plan.outputs(edge.source) if (e.operator, e.tag, e.target) == ends]
    return EdgeEnds(edge.id, sender.known_as, edge.tag, receiver.known_as, same.index(edge.id))
