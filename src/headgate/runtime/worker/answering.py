"""Answers live queries in a worker: reads the state of a subtask under a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from headgate.common.errors import InternalError, UsageError
from headgate.common.process.process_exceptions import let_pass
from headgate.runtime.protocol import messages as m
from headgate.runtime.protocol.error_messages import describe_error
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.runtime.worker.task.task import Task
from headgate.state.stored.blob_format import KEY_SERIALIZER

VALUE_BYTES_MAX: Final = 16 << 20  # more would delay heartbeats and checkpoint messages


def answer(task: Task, query: m.QueryState, send: Callable[[m.StateAnswer], None]) -> None:
    """Read the state that `query` asks for, between two steps of `task`; pass the answer to `send`, in the
    loop. The answer has the stored value, none if nothing is stored under the key, or the error: a query
    never fails the attempt.
    """
    plain = m.StateAnswer(query.attempt, query.query)

    def look_up() -> m.StateAnswer:
        try:
            return _found(task.operators, query, plain)
        except BaseException as error:
            let_pass(error)
            kind, arguments = describe_error(error)
            return msgspec.structs.replace(plain, kind=kind, arguments=arguments)

    task.between_steps(look_up, send)


def _found(operators: Sequence[Operator], query: m.QueryState, plain: m.StateAnswer) -> m.StateAnswer:
    owner = next((operator for operator in operators if operator.context.uid == query.uid), None)
    if owner is None:
        raise InternalError(f"operator {query.uid!r} is not in the chain that was asked; please report this")
    stored = owner.peek(query.state, KEY_SERIALIZER.decode(query.key))
    if stored is None:
        return plain
    if len(stored.data) > VALUE_BYTES_MAX:
        raise UsageError(
            f"state {query.state!r} of {query.uid!r} holds {len(stored.data)} bytes under the key; a query "
            f"gives up to {VALUE_BYTES_MAX}; read it out of a checkpoint"
        )
    return msgspec.structs.replace(plain, schema=stored.schema, data=stored.data)
