"""Sends records that came of a traced one, and before them, on each channel, the event that says so."""

from __future__ import annotations

import copy
from typing import Protocol, cast, runtime_checkable

from headgate.records.batch import Batch
from headgate.runtime.protocol.elements import Trace
from headgate.runtime.worker.exchange.output import EdgeReceiver, OutputChannel, OutputEdge
from headgate.runtime.worker.operators.operator_contract import Receiver


class Sending(Protocol):
    """A traced record at the moment when its records go into exchanges."""

    def sent(self, edge: int, receiver: int, waiting: int) -> Trace | None:
        """Note that a record goes to subtask `receiver` of an exchange, behind so many frames that wait for
        credit. Return the event to be sent before it; None: one of them is followed there already.
        """


@runtime_checkable
class TracedReceiver(Protocol):
    """A receiver in front of exchanges that does not pass batches on as they are, or not at once."""

    def traced(self, batch: Batch, sending: Sending) -> None:
        """Do what `process` does, and pass `sending` on with the batch, by :func:`traced`."""


def traced(receiver: Receiver, batch: Batch, sending: Sending) -> None:
    """Give a batch that came of a traced record to the outputs at the end of a chain."""
    if isinstance(receiver, EdgeReceiver):
        _sent(receiver, batch, sending)
    elif isinstance(receiver, TracedReceiver):
        receiver.traced(batch, sending)
    else:
        receiver.process(batch)


def _sent(receiver: EdgeReceiver, batch: Batch, sending: Sending) -> None:
    # Copies do the work, as the heartbeat's thread looks at the edges meanwhile.
    through = copy.copy(receiver)
    through.edges = [copy.copy(edge) for edge in receiver.edges]
    for edge in through.edges:
        edge.channels = [
            # A partitioner only adds batches to its channels.
            cast(OutputChannel, _TracedChannel(edge, to, channel, sending))
            for to, channel in zip(edge.receivers, edge.channels, strict=True)
        ]
    through.process(batch)
    for edge, taken in zip(receiver.edges, through.edges, strict=True):
        edge.turn = taken.turn


class _TracedChannel:
    __slots__ = ("_channel", "_edge", "_receiver", "_sending")

    def __init__(self, edge: OutputEdge, receiver: int, channel: OutputChannel, sending: Sending) -> None:
        self._edge, self._receiver, self._channel, self._sending = edge, receiver, channel, sending

    def add(self, batch: Batch) -> None:
        channel = self._channel
        event = self._sending.sent(self._edge.ends.edge, self._receiver, channel.waiting)
        if event is not None:
            channel.event(event)
        channel.add(batch)
