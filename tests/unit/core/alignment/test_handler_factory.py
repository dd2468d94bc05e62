"""Which mode gets which handler (row B11)."""

from __future__ import annotations

import pytest

from headgate.common.errors import ConfigError
from headgate.core.alignment.at_least_once_handler import CheckpointBarrierTracker
from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.factory import AlignedBarrierHandler, AlternatingBarrierHandler, make_handler
from headgate.core.alignment.handler_contract import TriggerSnapshot


@pytest.mark.parametrize(
    ("exactly_once", "unaligned", "expected"),
    [
        (True, True, AlternatingBarrierHandler),
        (True, False, AlignedBarrierHandler),
        (False, False, CheckpointBarrierTracker),
    ],
)
def test_b11_each_mode_has_its_handler(exactly_once: bool, unaligned: bool, expected: type) -> None:
    """B11: three of four combinations; the number of channels is passed on."""
    handler = make_handler(3, exactly_once=exactly_once, unaligned=unaligned)
    assert type(handler) is expected
    assert handler.announce(0, Barrier(1, 0), 0, 0.0) + handler.barrier(0, Barrier(1, 0), 0, 0.0) == []
    assert handler.barrier(1, Barrier(1, 0), 0, 0.0) == []
    effects = handler.barrier(2, Barrier(1, 0), 0, 0.0)
    assert [type(effect) for effect in effects] == [TriggerSnapshot]


def test_b11_at_least_once_with_unaligned_is_refused() -> None:
    """B11: the message names the option and the mode."""
    with pytest.raises(ConfigError, match=r"checkpointing\.unaligned\.enabled is true .*AT_LEAST_ONCE"):
        make_handler(1, exactly_once=False, unaligned=True)


def test_awaited_channels_are_passed_on() -> None:
    """An awaited channel's barrier must be here before one overtakes."""
    handler = make_handler(2, exactly_once=True, unaligned=True, awaited=frozenset({1}))
    barrier = Barrier(1, 0, Alignment.UNALIGNED)
    assert handler.announce(0, barrier, 0, 0.0) == []
    assert isinstance(handler.announce(1, barrier, 0, 0.0)[0], TriggerSnapshot)


def test_forced_channels_are_passed_on() -> None:
    """The alternating handler waits for the channels named here, the lenient one bears a repetition."""
    handler = make_handler(2, exactly_once=True, unaligned=True, forced=frozenset({1}))
    barrier = Barrier(1, 0, Alignment.UNALIGNED)
    assert handler.announce(0, barrier, 0, 0.0) + handler.announce(0, barrier, 0, 0.0) == []
    assert isinstance(handler.barrier(1, barrier.as_forced(), 0, 0.0)[0], TriggerSnapshot)
