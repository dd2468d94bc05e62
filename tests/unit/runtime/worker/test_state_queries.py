"""Questions about live state: routed by key, answered between steps, and never left open or harmful."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from operator_samples import context, opened, rows
from task_samples import Rig
from test_blocking_functions import BesideRig
from test_job_master import FIXED, SLOTS, Desk

import headgate as hg
from headgate.common.errors import InternalError, NoEntryError, OperatingError, UsageError
from headgate.common.keys.keygroups import key_group, operator_index_for_key_group
from headgate.connectors.collection import collection_source
from headgate.core.job.state import REASON_WAIT_MS
from headgate.runtime.job.live_state import LiveState
from headgate.runtime.master.attempt.live_queries import PENDING_MAX, StateQueries
from headgate.runtime.protocol import messages as m
from headgate.runtime.protocol.message_codec import decode_from_worker, decode_to_worker, encode_message
from headgate.runtime.worker import answering
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.task.gate_task import GateTask

KEYS: list[Any] = ["ada", b"ada", 7, 7.5, ("ada", 7), 2**80]


class Mean(hg.AggregateFunction[int, tuple[int, int], float]):
    """Told by two numbers."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[1] / accumulator[0]


class Visits(hg.KeyedProcessFunction[Any, Any, Any]):
    """Counts, and keeps a mean; a key of None's kind has text of any length."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    mean: hg.AggregatingState[int, float] = hg.aggregating_state(Mean())
    text: hg.ValueState[str] = hg.value_state(default="")

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> None:
        self.count.value += 1
        self.mean.add(self.count.value)


def own(record: Any) -> Any:
    """The record is its key."""
    return record


def plan(parallelism: int = 2) -> Any:
    """A source and :class:`Visits`."""
    env = hg.Environment(parallelism=parallelism)
    keyed = env.from_source(collection_source(["ada"]), uid="in").key_by(own)
    keyed.process(Visits(), uid="visits").collect_later(uid="out")
    return env.plan()


class Outcomes:
    """What questions came to."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, Any]] = []

    def __call__(self, value: Any, error: Any) -> None:
        self.all.append((value, error))

    @property
    def only(self) -> tuple[Any, Any]:
        (outcome,) = self.all
        return outcome


def operator_of(subtask: int, parallelism: int, max_parallelism: int) -> KeyedProcessOperator:
    """The subtask's operator, open, after each of its keys was seen twice."""
    where = context("visits", subtask=subtask, parallelism=parallelism, max_parallelism=max_parallelism)
    operator = KeyedProcessOperator(where, Visits(), own)
    opened(operator)
    mine = [key for key in KEYS if owner(key, parallelism, max_parallelism) == subtask]
    if mine:
        operator.process(rows(mine * 2))
    return operator


def owner(key: Any, parallelism: int, max_parallelism: int) -> int:
    """The subtask that has a key."""
    return operator_index_for_key_group(max_parallelism, parallelism, key_group(key, max_parallelism))


def task_of(operator: Any, rig: Rig) -> GateTask:
    """A task whose only operator that is."""
    task: GateTask = rig.task
    task.operators = [operator]
    return task


@pytest.mark.parametrize("key", KEYS)
def test_a_question_finds_its_subtask_over_the_wire_and_back(key: Any) -> None:
    """Any kind of key; what travels is plain bytes, and the aggregate's result is told at the asker's."""
    job = plan(3)
    queries, outcomes = StateQueries(job), Outcomes()
    for state in ("count", "mean"):
        slot, message = queries.ask(1, "visits", state, key, outcomes)
        assert (slot, slot) == (message.subtask, owner(key, 3, job.max_parallelism))
        task = task_of(operator_of(slot, 3, job.max_parallelism), Rig(1, 100))
        sent: list[m.StateAnswer] = []
        question: Any = decode_to_worker(encode_message(message))
        answering.answer(task, question, sent.append)
        (answer,) = sent
        received: Any = decode_from_worker(encode_message(answer))
        queries.answered(received)
        queries.answered(received)  # once is enough
    assert outcomes.all == [(2, None), (1.5, None)]


def number_of(record: str) -> int:
    """A key of a declared type."""
    return len(record)


def test_a_key_of_another_type_than_declared_is_refused() -> None:
    """Nothing can ever be under it; a key that equals one of the declared type may be asked."""
    env = hg.Environment(parallelism=2)
    keyed = env.from_source(collection_source(["ada"]), uid="in").key_by(number_of)
    keyed.process(Visits(), uid="visits").collect_later(uid="out")
    queries, outcomes = StateQueries(env.plan()), Outcomes()
    said = "key '3' of type str, and key function number_of declares keys of type int"
    with pytest.raises(UsageError, match=said):
        queries.ask(1, "visits", "count", "3", outcomes)
    assert queries.ask(1, "visits", "count", True, outcomes)[1].uid == "visits"


def test_names_that_are_not_there_are_told_with_those_that_are() -> None:
    """Before anything is sent."""
    queries, outcomes = StateQueries(plan()), Outcomes()
    with pytest.raises(UsageError, match=r"no operator with keyed state and uid 'visit'.* are: 'visits'"):
        queries.ask(1, "visit", "count", "ada", outcomes)
    with pytest.raises(UsageError, match="no operator with keyed state and uid 'in'"):
        queries.ask(1, "in", "count", "ada", outcomes)
    with pytest.raises(UsageError, match="no keyed state 'counts'; it has 'count', 'mean', 'text'"):
        queries.ask(1, "visits", "counts", "ada", outcomes)
    with pytest.raises(UsageError, match="a key is None"):
        queries.ask(1, "visits", "count", None, outcomes)
    assert outcomes.all == []


def test_a_key_without_an_entry_is_told_apart_from_a_wrong_name() -> None:
    """Nothing is stored: an error of its own class, which names all three."""
    queries, outcomes = StateQueries(plan()), Outcomes()
    _, message = queries.ask(1, "visits", "count", "eve", outcomes)
    queries.answered(m.StateAnswer(1, message.query))
    _, error = outcomes.only
    assert isinstance(error, NoEntryError)
    assert str(error) == "state 'count' of operator 'visits' holds nothing under key 'eve'"


def answered(operator: Any, state: str = "count", key: Any = "ada", max_parallelism: int = 128) -> Any:
    """How a subtask of this operator answers; as an error, where it is one."""
    queries, outcomes = StateQueries(plan(1)), Outcomes()
    _, message = queries.ask(1, "visits", state, key, outcomes)
    sent: list[m.StateAnswer] = []
    answering.answer(task_of(operator, Rig(1, 100)), message, sent.append)
    queries.answered(sent[0])
    return outcomes.only


def test_what_goes_wrong_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong subtask, a value that does not fit its type, one that is too large: told, not raised."""
    stranger = operator_of(1 - owner("ada", 2, 128), 2, 128)
    assert isinstance(answered(stranger)[1], InternalError)
    operator = operator_of(0, 1, 128)
    operator._backend.bind("ada")
    operator._backend.handles["text"].value = 7
    operator._backend.store()
    assert "state 'text' cannot be shown" in str(answered(operator, "text")[1])
    monkeypatch.setattr(answering, "VALUE_BYTES_MAX", 100)
    operator._backend.handles["text"].value = "x" * 101
    operator._backend.store()
    error = answered(operator, "text")[1]
    assert isinstance(error, UsageError)
    assert "a query gives up to 100" in str(error)
    assert answered(operator) == (2, None)


def test_a_subtask_beside_the_loop_answers_when_it_is_back() -> None:
    """While user code runs on its thread nobody looks at its state; nothing else waits for the answer."""
    rig = BesideRig(1)
    looks: list[str] = []
    rig.task.between_steps(lambda: looks.append("look"), lambda _: looks.append("then"))
    assert looks == ["look", "then"]
    rig.task.deliver(0, rows([1, 2]))
    rig.run()
    assert rig.thread.jobs, "the call is under way"
    rig.task.between_steps(lambda: looks.append("later"), lambda _: looks.append("then"))
    assert looks == ["look", "then"]
    rig.finish()
    assert looks == ["look", "then", "later", "then"]


def test_only_so_many_questions_wait() -> None:
    """Somebody who asks without end is told so, and the job's loops are not flooded."""
    queries, outcomes = StateQueries(plan()), Outcomes()
    numbers = [queries.ask(1, "visits", "count", n, outcomes)[1].query for n in range(PENDING_MAX)]
    with pytest.raises(OperatingError, match="wait for their answers already"):
        queries.ask(1, "visits", "count", "one more", outcomes)
    queries.answered(m.StateAnswer(1, numbers[0]))
    queries.ask(1, "visits", "count", "one more", outcomes)


class KeyedDesk(Desk):
    """A desk whose job has keyed state."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.master._attempts.queries = StateQueries(plan(SLOTS))


def test_the_job_master_asks_the_slot_and_hands_the_answer_on() -> None:
    """Only while the job runs; an answer of an attempt that is over does not count."""
    desk, outcomes = KeyedDesk(**FIXED), Outcomes()
    desk.started()
    desk.master.query("visits", "count", "ada", outcomes)
    assert "only while it is running" in str(outcomes.all.pop()[1])
    for slot in range(SLOTS):
        desk.register(slot)
    for slot in range(SLOTS):
        desk.say(slot, m.Deployed(1))
    desk.master.query("visits", "count", "ada", outcomes)
    asked = [slot for slot in range(SLOTS) if desk.links[slot].last(m.QueryState) is not None]
    assert asked == [owner("ada", SLOTS, 128)]
    number = desk.links[asked[0]].last(m.QueryState).query
    desk.say(asked[0], m.StateAnswer(7, number))
    assert outcomes.all == []
    desk.say(asked[0], m.StateAnswer(1, number))
    assert isinstance(outcomes.only[1], NoEntryError)


@pytest.mark.parametrize("end", ["fail", "cancel", "link"])
def test_the_end_of_an_attempt_ends_its_questions(end: str) -> None:
    """Nobody waits for a subtask that is gone; what comes later changes nothing."""
    desk, outcomes = KeyedDesk(**FIXED), Outcomes()
    desk.running()
    desk.master.query("visits", "count", "ada", outcomes)
    if end == "fail":
        desk.fail(0)
    elif end == "cancel":
        desk.master.cancel()
    else:
        desk.master.link_lost(desk.links[1], "reset")
        desk.clock.now += REASON_WAIT_MS
        desk.master.tick()
    assert isinstance(outcomes.only[1], OperatingError)
    assert "attempt 1 of the job ended before operator 'visits'" in str(outcomes.only[1])
    desk.say(0, m.StateAnswer(1, 1))
    assert len(outcomes.all) == 1


def live_state(query: Any) -> LiveState:
    """A job whose loop is another thread."""
    return LiveState(query, lambda callback: threading.Thread(target=callback).start())


def test_the_asker_waits_for_value_or_error_but_not_for_ever() -> None:
    """From another thread; an answer that comes too late finds nobody and does no harm."""
    assert live_state(lambda uid, state, key, then: then((uid, state, key), None)).value("a", "b", 1) == (
        "a", "b", 1,
    )  # fmt: skip
    with pytest.raises(NoEntryError, match="nothing there"):
        live_state(lambda *asked: asked[3](None, NoEntryError("nothing there"))).value("a", "b", 1)
    late: list[Any] = []
    with pytest.raises(OperatingError, match="did not say within 1 ms"):
        live_state(lambda *asked: late.append(asked[3])).value("a", "b", 1, wait_ms=1)
    late[0]("too late", None)
