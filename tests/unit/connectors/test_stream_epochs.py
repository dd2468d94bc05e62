"""The machine at Spark's border, against a model that only counts what was read and what completed."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headgate.common.errors import InternalError
from headgate.connectors.dataframe.stream_epochs import Epochs, Phase

READERS = 3


class AnyOrder(RuleBasedStateMachine):
    """Every order of admissions, reads, and checkpoints that begin, complete, or come to nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = Epochs[tuple[int, int]](done=-1)
        self.admitted = self.acknowledged = -1
        self.shares: set[tuple[int, int]] = set()
        self.given: list[tuple[int, int]] = []
        self.holding: set[int] = set()
        self.cuts: dict[int, int] = {}
        self.next_checkpoint = 0

    @property
    def read(self) -> bool:
        """Whether the newest epoch is read to its end, as the readers know it."""
        return not self.holding and set(self.given) == self.shares

    @precondition(lambda self: self.admitted == self.acknowledged)
    @rule(count=st.integers(0, 4))
    def admit(self, count: int) -> None:
        """Spark has the next epoch."""
        self.admitted += 1
        self.shares, self.given = {(self.admitted, number) for number in range(count)}, []
        self.epochs.admit(self.admitted, sorted(self.shares))

    @rule(reader=st.integers(0, READERS - 1))
    def ask(self, reader: int) -> None:
        """A reader has read what it had, and asks."""
        self.holding.discard(reader)
        share = self.epochs.take(reader)
        if share is not None:
            self.given.append(share)
            self.holding.add(reader)

    @precondition(lambda self: self.epochs.ready)
    @rule()
    def draw(self) -> None:
        """A checkpoint or a savepoint begins."""
        self.cuts[self.next_checkpoint] = self.epochs.snapshot(self.next_checkpoint)
        assert self.cuts[self.next_checkpoint] == self.admitted
        self.next_checkpoint += 1

    @precondition(lambda self: self.cuts)
    @rule(data=st.data(), whole=st.booleans())
    def end_checkpoint(self, data: st.DataObject, whole: bool) -> None:
        """One of those under way ends, in any order."""
        checkpoint = data.draw(st.sampled_from(sorted(self.cuts)))
        cut = self.cuts.pop(checkpoint)
        if not whole:
            self.epochs.abort(checkpoint)
            return
        expected = cut if cut > self.acknowledged else None
        assert self.epochs.complete(checkpoint) == expected
        self.acknowledged = max(self.acknowledged, cut)

    @precondition(lambda self: self.admitted > self.acknowledged or not self.epochs.ready)
    @rule()
    def admit_too_early(self) -> None:
        """One epoch at a time."""
        with pytest.raises(InternalError, match="one by one"):
            self.epochs.admit(self.admitted + 1, [])

    @invariant()
    def no_share_goes_out_twice(self) -> None:
        """And none of another epoch."""
        assert len(self.given) == len(set(self.given))
        assert set(self.given) <= self.shares

    @invariant()
    def a_cut_falls_between_epochs(self) -> None:
        """Ready exactly when nobody holds anything, and nothing is left."""
        if self.admitted > self.acknowledged and not self.read:
            assert not self.epochs.ready
        if self.epochs.ready:
            assert self.read

    @invariant()
    def a_checkpoint_is_wanted_only_for_what_none_holds(self) -> None:
        """Neither a complete one nor one under way."""
        held = self.admitted in self.cuts.values() or self.admitted == self.acknowledged
        assert self.epochs.wants_checkpoint == (self.epochs.ready and not held)

    @invariant()
    def the_phases_are_those_of_the_table(self) -> None:
        """Between epochs exactly when everything is acknowledged."""
        assert (self.epochs.phase is Phase.BETWEEN) == (self.admitted == self.acknowledged)
        assert self.epochs.done == self.acknowledged


AnyOrder.TestCase.settings = settings(max_examples=50, stateful_step_count=25)
TestAnyOrder = AnyOrder.TestCase


def test_an_epoch_is_not_cut() -> None:
    """A checkpoint in the middle of an epoch is an error of ours, named."""
    epochs = Epochs[str](done=3)
    epochs.admit(4, ["a"])
    with pytest.raises(InternalError, match="checkpoint 9 would cut epoch 4"):
        epochs.snapshot(9)


def test_an_epoch_out_of_order_is_refused() -> None:
    """Behind epoch 3 comes epoch 4."""
    with pytest.raises(InternalError, match="epoch 5 of a Spark source was offered while epoch 4"):
        Epochs[str](done=3).admit(5, [])
