"""Queries of live keyed state: finds the subtask of a key, and matches answers to queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from headgate.api.declared.keyed_states import StateDescriptor, StateKind, declared_state
from headgate.common.errors import HeadgateError, NoEntryError, OperatingError, UsageError
from headgate.common.keys.key_types import DeclaredKeys, fits, hint_words, shape_of, shape_words
from headgate.common.keys.keygroups import key_group, operator_index_for_key_group, shortened
from headgate.graph.logical import KeyedProcessNode
from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.runtime.master.attempt.waiting_requests import ReplyTo
from headgate.runtime.protocol import messages as m
from headgate.runtime.protocol.error_messages import rebuild_error
from headgate.state.backend import StoredValue
from headgate.state.stored.blob_format import KEY_SERIALIZER
from headgate.state.stored.value_readers import value_of
from headgate.state.targets import target_of

PENDING_MAX: Final = 100  # unanswered queries; each takes a moment of its subtask's loop


class _Question(NamedTuple):
    attempt: int
    uid: str
    state: StateDescriptor
    key: Hashable
    reply_to: ReplyTo[Any]


class _Keyed(NamedTuple):
    vertex: Vertex
    states: Mapping[str, StateDescriptor]
    keys: DeclaredKeys | None


class StateQueries:
    """The pending queries of one job, each for a key's live value, until answered or the attempt's end."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._plan, self._operators = plan, dict[str, _Keyed]()
        self._numbers = count(1)
        self._pending: dict[int, _Question] = {}

    def ask(
        self, attempt: int, uid: str, state: str, key: Hashable, reply_to: ReplyTo[Any]
    ) -> tuple[int, m.QueryState]:
        """Register a query for `key` in `state` of operator `uid`; return slot and message, for the caller to
        send. `reply_to` is called once, by :meth:`answered` or :meth:`end`. Raises UsageError for an unknown
        operator or state or a wrong type of key, OperatingError if 100 queries are pending already.
        """
        operator = self._operator(uid)
        descriptor = operator.states.get(state)
        if descriptor is None:
            names = ", ".join(map(repr, operator.states))
            raise UsageError(f"operator {uid!r} has no keyed state {state!r}; it has {names}")
        _check_type(uid, key, operator.keys)
        group = key_group(key, self._plan.max_parallelism)
        if len(self._pending) >= PENDING_MAX:
            raise OperatingError(
                f"{PENDING_MAX} questions about live state wait for their answers already; ask again later"
            )
        parallelism = operator.vertex.parallelism
        subtask = operator_index_for_key_group(self._plan.max_parallelism, parallelism, group)
        number = next(self._numbers)
        self._pending[number] = _Question(attempt, uid, descriptor, key, reply_to)
        encoded = KEY_SERIALIZER.encode(key)
        return subtask, m.QueryState(attempt, number, operator.vertex.id, subtask, uid, state, encoded)

    def answered(self, answer: m.StateAnswer) -> None:
        """Pass a worker's answer, value or error, to its query's `reply_to`; ignore it if none is pending."""
        question = self._pending.pop(answer.query, None)
        if question is None:
            return
        try:
            value = _value(question, answer)
        except HeadgateError as error:
            question.reply_to(None, error)
        else:
            question.reply_to(value, None)

    def end(self, attempt: int) -> None:
        """Fail the pending queries of attempts up to number `attempt`, which have ended: OperatingError."""
        for number in [number for number, asked in self._pending.items() if asked.attempt <= attempt]:
            question = self._pending.pop(number)
            reason = (
                f"attempt {attempt} of the job ended before operator {question.uid!r} could say what it "
                f"holds under key {shortened(question.key)}; ask again once the job is running"
            )
            question.reply_to(None, OperatingError(reason))

    def _operator(self, uid: str) -> _Keyed:
        if not self._operators:
            self._operators = _keyed_operators(self._plan)
        found = self._operators.get(uid)
        if found is None:
            names = ", ".join(map(repr, self._operators)) or "none"
            raise UsageError(
                f"the job has no operator with keyed state and uid {uid!r}; those with keyed state are: "
                f"{names}"
            )
        return found


def _keyed_operators(plan: PhysicalPlan) -> dict[str, _Keyed]:
    found: dict[str, _Keyed] = {}
    for vertex in plan.vertices:
        for node in vertex.chain:
            if isinstance(node, KeyedProcessNode) and (states := declared_state(node.function)):
                found[node.known_as] = _Keyed(vertex, states, node.keys)
    return found


def _check_type(uid: str, key: Hashable, declared: DeclaredKeys | None) -> None:
    # No key of the stream can equal one of another type: nothing would ever be found under it.
    shape = shape_of(key)
    if declared is not None and not fits(shape, declared.hint):
        raise UsageError(
            f"operator {uid!r} was asked for key {shortened(key)} of type {shape_words(shape)}, and "
            f"{declared.teller} declares keys of type {hint_words(declared.hint)}; ask with such a key"
        )


def _value(question: _Question, answer: m.StateAnswer) -> Any:
    state = question.state
    if answer.kind is not None:
        raise rebuild_error(answer.kind, answer.arguments)
    if answer.data is None:
        raise NoEntryError(
            f"state {state.name!r} of operator {question.uid!r} holds nothing under key "
            f"{shortened(question.key)}"
        )
    held = value_of(state.name, StoredValue(answer.schema, answer.data), target_of(state))
    return state.function.get_result(held) if state.kind == StateKind.AGGREGATING else held
