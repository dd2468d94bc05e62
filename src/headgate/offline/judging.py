"""Judges a snapshot by a program, operator by operator. Runs where the program's classes are at hand.

Operators are matched by uid. The planning of the restore is run as well, for what single operators do not
show, such as a changed exchange with records in flight.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypedDict, TypeVar

import msgspec

from headgate.api.checking.program_checks import check_connectors, check_state_types, stateful_part
from headgate.api.declared.keyed_states import declared_state
from headgate.api.declared.operator_state import OperatorStateDescriptor, declared_operator_state
from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.storage.settings import storage_settings
from headgate.checkpoint.storage.uris import disks_with
from headgate.common.errors import UsageError
from headgate.common.ids import JobId
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.common.settings.config import Config
from headgate.common.settings.options import IGNORE_UNCLAIMED_STATE
from headgate.graph.logical import KeyedProcessNode, Node, SinkNode, SourceNode
from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.graph.plan import edge_record_types
from headgate.offline.inspecting import Answer, answered
from headgate.offline.keyed_verdicts import (
    CONVERTED,
    NOTHING_STORED,
    StoredKeyed,
    add,
    judged,
    operator_refusals,
    refused,
    together,
)
from headgate.offline.upgrade import Item, OperatorReport, UpgradeReport, Verdict
from headgate.offline.words import OPERATOR_STATE, state_words
from headgate.restore.assignment import WRITER, prepared_in, publishes, sources_in
from headgate.restore.in_flight_shares import old_parallelism, records_of
from headgate.restore.point import RestorePoint
from headgate.runtime.driver.claiming import check_claim, refuse_in_use
from headgate.runtime.driver.start_checks import checks, with_stored_groups
from headgate.runtime.job.job_settings import job_settings
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.worker.in_flight.stored_parts import check_records
from headgate.serde.verdicts import Compatibility, Incompatible
from headgate.state.operator_state import OperatorStateBackend
from headgate.state.snapshots import CheckpointMetadata, InFlightStream, OperatorStateHandle

GIVE_UID: Final = (
    "give it the one that its state is stored under: uid='...'; no job with checkpoints goes without"
)
_NEAR: Final = 0.6
"""The ratio of `difflib` from which on two names count as similar."""

T = TypeVar("T")


class UpgradeQuestion(TypedDict):
    """The request of `check_upgrade` to the program's process: what is compared, what may be left behind."""

    snapshot: str
    program: str
    allow_non_restored: bool


def inspect(
    request: UpgradeQuestion, nodes: Sequence[Node], plan: PhysicalPlan, config: Config
) -> Answer[UpgradeReport]:
    def report() -> UpgradeReport:
        disk, metadata = open_checkpoint(request["snapshot"])
        allow = request["allow_non_restored"] or config.get(IGNORE_UNCLAIMED_STATE)
        judge = Judgement(disk, metadata, nodes, plan, allow, config)
        return judge.report(request["snapshot"], request["program"])

    return answered(config, report)


class Judgement:
    """Finds what a restore of one snapshot by one program, planned as `nodes` and `plan`, would do.

    `config` None: the defaults. `allow_non_restored`: state that the program lacks may be left behind.
    """

    def __init__(
        self,
        disk: Disk,
        metadata: CheckpointMetadata,
        nodes: Sequence[Node],
        plan: PhysicalPlan,
        allow_non_restored: bool = False,
        config: Config | None = None,
    ) -> None:
        self._disk, self._metadata, self._nodes, self._plan = disk, metadata, nodes, plan
        self._allow = allow_non_restored
        self._config = (config or Config()).with_program({IGNORE_UNCLAIMED_STATE.key: allow_non_restored})
        self._ungrouped: str | None = None
        if config is not None:
            try:
                self._plan = with_stored_groups(plan, config, metadata)
            except UsageError as error:
                self._ungrouped = str(error)
        self._unnamed = {node.id: stateful_part(node) for node in nodes if node.uid is None}
        self._before = old_parallelism(metadata)
        self._sources, self._prepared = sources_in(metadata), prepared_in(metadata)

    def report(self, snapshot: str, program: str) -> UpgradeReport:
        """Return the report on all operators and, if these can be restored, on what else would refuse it.

        `snapshot` (URI) and `program` (file) are only named in the report. StorageError: a file is damaged.
        """
        operators = [self._operator(node, vertex) for vertex in self._plan.vertices for node in vertex.chain]
        metadata = self._metadata
        receivers = {stream.receiver for stream in metadata.in_flight if records_of(stream)}
        stored = {*metadata.operators, *metadata.state_types, *metadata.enumerators, *receivers}
        lost = [
            OperatorReport(uid, None, self._before.get(uid), None, self._items(uid, None, None))
            for uid in sorted(stored - {operator.uid for operator in operators})
        ]
        held = [operator for operator in operators if operator.items]
        found = UpgradeReport(
            snapshot=snapshot,
            kind=metadata.kind,
            format=metadata.format,
            job=metadata.job_name,
            checkpoint=metadata.checkpoint,
            program=program,
            max_parallelism_stored=metadata.max_parallelism,
            max_parallelism=self._plan.max_parallelism,
            allow_non_restored=self._allow,
            operators=[*held, *(_suggested(one, held) for one in lost if one.items)],
            refusals=self._groups(),
        )
        # The start of the job would only repeat what the operators show.
        return msgspec.structs.replace(found, refusals=self._refused()) if found.restorable else found

    def _groups(self) -> list[str]:
        if self._ungrouped is not None:
            return [self._ungrouped]
        stored, asked = self._metadata.max_parallelism, self._plan.max_parallelism
        if stored == asked:
            return []
        widest = max((vertex.parallelism for vertex in self._plan.vertices), default=1)
        if widest > stored:
            what = f"parallelism {widest} needs as many key groups, and the snapshot has {stored}"
            mend = f"run the program at a parallelism of at most {stored}"
        else:
            what = f"the snapshot has {stored} key groups and the program asks for {asked}"
            mend = f"set pipeline.max-parallelism to {stored}"
        rewrite = f"headgate savepoint reslice SNAPSHOT TARGET --max-parallelism {asked}"
        return [f"{what}; {mend}, or rewrite the snapshot: {rewrite}"]

    def _refused(self) -> list[str]:
        refusals: list[str] = []

        def ask(check: Callable[[], T]) -> T | None:
            try:
                return check()
            except UsageError as error:
                refusals.append(str(error))
                return None

        config, nodes = self._config, self._nodes
        ask(lambda: check_state_types(nodes, config))
        ask(lambda: check_connectors(nodes))
        job = ask(self._claimed) or JobId("")
        for check in checks(config, job, self._plan, self._metadata):
            ask(check)
        return list(dict.fromkeys(refusals))

    def _claimed(self) -> JobId | None:
        settings = job_settings(self._config)
        disks = disks_with(storage_settings(self._config))
        disk = None if settings.storage is None else disks(settings.storage)
        point = RestorePoint(self._metadata, self._disk.describe())
        refuse_in_use(self._config, point, JobId(""), disks)
        return check_claim(self._config, disk, point, disks)

    # -- one operator

    def _operator(self, node: Node, vertex: Vertex) -> OperatorReport:
        uid = node.uid or ""
        unnamed = self._unnamed.get(node.id)
        advice = None if unnamed is None else f"operator {node.name!r} has {unnamed} but no uid; {GIVE_UID}"
        items, before = self._items(uid, node, vertex), self._before.get(uid)
        return OperatorReport(uid, node.name, before, vertex.parallelism, items, advice, unnamed is not None)

    def _items(self, uid: str, node: Node | None, vertex: Vertex | None) -> list[Item]:
        stored = StoredKeyed(self._disk, self._metadata, uid)
        if isinstance(node, KeyedProcessNode):
            items = judged(stored, declared_state(node.function), node.keys)
        else:
            items = judged(stored, None)
        items += self._operator_state(uid, declared_operator_state(getattr(node, "function", None)))
        items += self._ends(uid, node)
        return items + [self._stream(stream, node, vertex) for stream in self._streams(uid)]

    def _operator_state(self, uid: str, declared: Mapping[str, OperatorStateDescriptor]) -> Iterable[Item]:
        stored: dict[str, list[OperatorStateHandle]] = {}
        for state in self._metadata.operators.get(uid, ()):
            for held in state.operator_state:
                if held.count:
                    stored.setdefault(held.name, []).append(held)
        types = OperatorStateBackend(declared).state_types()
        for name in [*declared, *sorted(stored.keys() - declared.keys())]:
            words = None if name not in declared else state_words(types[name])
            if name not in stored:
                # The snapshot holds no element of it; an empty state may be of any type.
                known = self._metadata.state_types.get(uid, {}).get(name, {}).get("kind") in OPERATOR_STATE
                verdict = Verdict.AS_IS if known else Verdict.ONLY_IN_PROGRAM
                why = NOTHING_STORED if known else None
                yield Item("operator state", name, verdict, None, words, why)
            elif name not in declared:
                words = state_words(stored[name][0].schema)
                yield Item("operator state", name, Verdict.ONLY_IN_SNAPSHOT, words)
            else:
                item = _operator_item(OperatorStateBackend(declared), name, stored[name], words)
                if item.verdict in CONVERTED:
                    item = refused(item, operator_refusals(self._disk, stored[name], declared[name]))
                yield item

    def _ends(self, uid: str, node: Node | None) -> Iterable[Item]:
        is_source, is_sink = isinstance(node, SourceNode), isinstance(node, SinkNode)
        if uid in self._sources or is_source:
            yield _end("source", "splits", uid in self._sources, is_source)
        states = self._metadata.operators.get(uid, ())
        if any(state.list_state.get(WRITER) for state in states):
            yield _end("sink", "writer", True, is_sink)
        if uid in self._prepared:
            yield _end("sink", "prepared output", True, isinstance(node, SinkNode) and publishes(node.sink))

    # -- records in flight

    def _streams(self, uid: str) -> list[InFlightStream]:
        found = [
            stream for stream in self._metadata.in_flight if stream.receiver == uid and records_of(stream)
        ]
        edges: dict[tuple[str, str, int], InFlightStream] = {}
        for number, stream in enumerate(found):
            edge = (stream.sender, stream.tag or "", number if stream.record_type is None else 0)
            before = edges[edge].parts if edge in edges else []
            edges[edge] = msgspec.structs.replace(edges.get(edge, stream), parts=[*before, *stream.parts])
        return list(edges.values())

    def _stream(self, stream: InFlightStream, node: Node | None, vertex: Vertex | None) -> Item:
        tag = "" if stream.tag is None else f" side output {stream.tag!r}"
        name, count = f"from {stream.sender!r}{tag}", f"{records_of(stream)} records"
        if node is None or vertex is None:
            return Item("records in flight", name, Verdict.ONLY_IN_SNAPSHOT, count)
        types = edge_record_types(self._nodes, self._plan)
        for edge in self._plan.inputs(vertex.id):
            sender = self._plan.vertices[edge.source].chain[edge.operator].uid
            if sender == stream.sender and edge.tag == stream.tag:
                try:
                    check_records(stream.record_type, ElementCodec(types.get(edge.id)), name)
                except UsageError as error:
                    return Item("records in flight", name, Verdict.INCOMPATIBLE, count, None, str(error))
        return Item("records in flight", name, Verdict.AS_IS, count)


def _end(part: str, name: str, stored: bool, declared: bool) -> Item:
    if stored and declared:
        return Item(part, name, Verdict.AS_IS)
    return Item(part, name, Verdict.ONLY_IN_SNAPSHOT if stored else Verdict.ONLY_IN_PROGRAM)


def _operator_item(
    backend: OperatorStateBackend, name: str, stored: Sequence[OperatorStateHandle], words: str | None
) -> Item:
    found, schemas = list[Compatibility](), list[Description]()
    for held in stored:
        add(schemas, held.schema)
        try:
            found.append(backend.verdict(held))
        except UsageError as error:
            found.append(Incompatible(str(error)))
    verdict, why = together(found)
    return Item("operator state", name, verdict, " and ".join(map(state_words, schemas)), words, why)


def _suggested(lost: OperatorReport, held: Sequence[OperatorReport]) -> OperatorReport:
    names = {item.name for item in lost.items}
    near = (
        (max(difflib.SequenceMatcher(None, lost.uid, one.uid).ratio(), _alike(names, one)), one.uid)
        for one in held
        if one.parallelism_stored is None or {item.verdict for item in one.items} == {Verdict.ONLY_IN_PROGRAM}
    )
    best, uid = max(near, default=(0.0, ""))
    if best < _NEAR:
        return lost
    old = repr(lost.uid)
    question = f"did you rename uid {old} to {uid!r}? Give the operator its old uid back: uid={old}"
    return msgspec.structs.replace(lost, suggestion=question)


def _alike(names: set[str], other: OperatorReport) -> float:
    theirs = {item.name for item in other.items}
    # Timers and keys have one name everywhere, and the program alone does not show that it has any.
    names = names - {"timers", "keys"}
    return len(names & theirs) / len(names | theirs) if names | theirs else 0.0
