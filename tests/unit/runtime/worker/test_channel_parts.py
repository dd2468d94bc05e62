"""Metrics of channels and splits: nothing is lost in what is on its way, and a limit bounds the series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import context, rows

from headgate.api.source import InputLeft, SourceReaderContext
from headgate.common.errors import PlanError, UsageError
from headgate.common.ids import EdgeId
from headgate.connectors.generator import GeneratorReader, GeneratorSource
from headgate.graph.partitioners import Broadcast
from headgate.metrics import of_parts as of
from headgate.runtime.worker.exchange.channel_parts import ALL, CHANNELS_MAX, channel_parts
from headgate.runtime.worker.exchange.output import EdgeEnds, OutputChannel, OutputEdge, Outputs
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.operators.split_parts import OTHERS, SPLITS_MAX, parts_of_splits


class Nowhere:
    """A lane whose far end is not looked at."""

    def deliver(self, element: Any) -> None:
        """Nothing."""


def exchange(receivers: int, credit: int = 3) -> tuple[Outputs, list[OutputChannel]]:
    """A subtask with one exchange."""
    channels = [OutputChannel(Nowhere(), credit) for _ in range(receivers)]
    outputs = Outputs(10)
    outputs.edges.append(OutputEdge(Broadcast(), channels, 128))
    return outputs, channels


def told(outputs: Outputs, metric: Any) -> dict[str, int]:
    """A metric's values by receiving subtask."""
    return {part.labels[1]: dict(part.known())[metric] for part in channel_parts(outputs)}


@given(st.lists(st.integers(1, 5) | st.none(), max_size=30))
def test_frames_in_flight_and_credit_are_always_the_credit_of_the_begin(steps: list[int | None]) -> None:
    """Whatever is sent, processed (None) or waits; and with no frame in flight there are no bytes."""
    outputs, (channel,) = exchange(1)
    for records in steps:
        if records is not None:
            channel.add(rows(list(range(records))))
            channel.flush()
        elif channel.credit.in_flight()[0]:
            channel.grant(1)
        in_flight, credit = told(outputs, of.IN_FLIGHT_FRAMES)["0"], told(outputs, of.CREDIT)["0"]
        assert in_flight + credit == 3
        assert (told(outputs, of.IN_FLIGHT_BYTES)["0"] > 0) == (in_flight > 0)
        assert (told(outputs, of.WAITING_FRAMES)["0"] == 0) or credit == 0


def test_an_exchange_with_many_receivers_is_told_as_one_channel() -> None:
    """With the sum of what is on its way, and the least credit: else each pair had a series."""
    for receivers, names in ((CHANNELS_MAX, CHANNELS_MAX), (CHANNELS_MAX + 1, 1)):
        outputs, channels = exchange(receivers)
        for channel in channels[:2]:
            channel.add(rows([1]))
            channel.flush()
        assert len(told(outputs, of.CREDIT)) == names
    assert told(outputs, of.IN_FLIGHT_FRAMES) == {ALL: 2}
    assert told(outputs, of.CREDIT) == {ALL: 2}


def test_exchanges_to_the_same_receiver_are_told_apart() -> None:
    """As of a union of a stream with itself, or of two operators of a chain: else two series are the same."""
    outputs = Outputs(10)
    for sender, tag, number in (("a", None, 0), ("a", None, 1), ("b", None, 0), ("b", "late", 0)):
        channel = OutputChannel(Nowhere(), 3)
        ends = EdgeEnds(EdgeId(0), sender, tag, "sum", number)
        outputs.edges.append(OutputEdge(Broadcast(), [channel], 128, ends=ends))
    names = [part.labels for part in channel_parts(outputs)]
    assert names == [["sum", "0"], ["sum #1", "0"], ["sum #2", "0"], ["sum (late)", "0"]]


def test_further_splits_of_a_reader_are_told_as_one() -> None:
    """If something is known of all of them; what is known of some only would look like the end."""
    many = {str(n): InputLeft(records=n, bytes=1 if n < SPLITS_MAX else None) for n in range(SPLITS_MAX + 2)}
    parts = parts_of_splits(many)
    assert parts[-1] == of.Part("split", [OTHERS], [2 * SPLITS_MAX + 1, None, None])
    assert len(parts) == SPLITS_MAX + 1


def sampled(**left: Any) -> list[of.Part]:
    """What is told of a source of a program's own, whose reader says that so much is left of its splits."""
    return told_of(lambda: {name: InputLeft(records=records) for name, records in left.items()})


def told_of(says: Callable[[], Any]) -> list[of.Part]:
    """What is told of a source of a program's own, by what its reader returns."""

    class Reader(GeneratorReader[int]):
        def left_to_read(self) -> Any:
            return says()

    class Numbers(GeneratorSource[int]):
        def create_reader(self, context: SourceReaderContext) -> Reader:
            return Reader(int, False, self.boundedness)

    operator = SourceOperator(context(), Numbers(int, 1, None, False, 1, None))
    operator.open()
    operator.sample()
    return list(operator.parts())


def test_what_is_left_travels_whatever_whole_number_it_is() -> None:
    """Of NumPy, below 0, or too large, also as a sum; and so does each name. Else the heartbeat failed."""
    parts = sampled(**{"a\udc80": np.int64(5)}, b=-3, c=2**64, d=None)
    assert [part.labels for part in parts] == [["a\\udc80"], ["b"], ["c"], ["d"]]
    assert [part.values[0] for part in parts] == [5, 0, 2**63 - 1, None]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(parts), type=list[of.Part]) == parts
    endless = parts_of_splits({str(n): InputLeft(records=2**63 - 1) for n in range(SPLITS_MAX + 3)})
    assert endless[-1].values[0] == 2**63 - 1


@pytest.mark.parametrize("left", [None, 7, ["a"], {"a": 7}, {"a": None}, {"a": InputLeft(), "b": {"n": 1}}])
def test_what_is_no_mapping_names_the_operator(left: Any) -> None:
    """And says what was returned, and what was expected."""
    with pytest.raises(UsageError, match=r"uid 'op'.*left_to_read\(\) returned .*; expected a mapping of"):
        told_of(lambda: left)


@pytest.mark.parametrize("records", [1.5, np.float64(3), "7"])
def test_what_is_left_and_no_whole_number_is_the_sources_error(records: Any) -> None:
    """With operator and line."""
    with pytest.raises(PlanError, match=r"uid 'op'.*test_channel_parts.* got .*whole number"):
        sampled(a=records)
