"""After a restore event time may be behind what was reached before; that shortens no life."""

from __future__ import annotations

from typing import Any

import pytest

import headgate as hg
from headgate.api.declared.keyed_states import StateDescriptor, StateKind
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.ttl.backend import TtlKeyedBackend
from headgate.state.ttl.declared import with_stamps
from headgate.testing.suites.value_checks import snapshot_blob

TTL = hg.StateTtl(100, time="event", update="on-read-and-write")
STATES = {
    "value": StateDescriptor("value", StateKind.VALUE, (int,), lambda: 0, ttl=TTL),
    "elements": StateDescriptor("elements", StateKind.LIST, (int,), list, ttl=TTL),
    "entries": StateDescriptor("entries", StateKind.MAP, (str, int), dict, ttl=TTL),
    "total": StateDescriptor("total", StateKind.REDUCING, (int,), lambda: None, max, ttl=TTL),
}


class Program:
    """All kinds of state of one key, with event time in the test's hand."""

    def __init__(self, now: int) -> None:
        self.now = now
        heap = HeapKeyedBackend(with_stamps(STATES), 0, 127, 128)
        self.backend = TtlKeyedBackend(heap, STATES, lambda: 0, lambda: self.now)

    def at(self, now: int) -> Any:
        """The handles of the key at a moment."""
        self.now = now
        self.backend.bind("key")
        return self.backend.handles

    def write(self, now: int) -> None:
        """Write every state."""
        handles = self.at(now)
        handles["value"].value = 7
        handles["elements"].update([7])
        handles["entries"].put("a", 7)
        handles["total"].add(7)
        self.backend.store()

    def read(self, now: int) -> list[Any]:
        """What every state gives."""
        handles = self.at(now)
        got = [
            handles["value"].value,
            handles["elements"].get(),
            handles["entries"].get("a"),
            handles["total"].get(),
        ]
        self.backend.store()
        return got


@pytest.mark.parametrize("use", ["read", "write"])
def test_an_earlier_use_leaves_the_later_stamp(use: str) -> None:
    """Written at 1000, used at 500 by a subtask that is behind: over at 1100 and not at 600."""
    before = Program(1000)
    before.write(1000)
    after = Program(500)
    after.backend.restore([snapshot_blob(before.backend.snapshot_sync())])
    getattr(after, use)(500)
    expected_list = [] if use == "write" else [7]  # a list's new elements are new: their time is their own
    assert after.read(1050) == [7, expected_list, 7, 7]
    assert after.read(1200) == [0, [], None, None]
