"""What every store of completed checkpoints must do, wherever it keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest

from headgate.checkpoint.store.store_contract import CommitPermit, CompletedCheckpointStore
from headgate.common.errors import FencedError, StorageError
from headgate.common.ids import CheckpointId


class Medium(Protocol):
    """Where stores keep their entries; it outlives them."""

    def open(self) -> CompletedCheckpointStore:
        """A store as a newly started process sees it."""
        ...

    def entries(self) -> list[str]:
        """Names of what stands for completed checkpoints and claims, as it lies there."""
        ...

    def damage(self, checkpoint: int) -> str:
        """Shorten the entry of a checkpoint; returns its name in messages."""
        ...


def add(store: CompletedCheckpointStore, permit: CommitPermit, *checkpoints: int, keep: int = 99) -> None:
    """Complete checkpoints, keeping the newest ones only."""
    for checkpoint in checkpoints:
        store.append(permit, CheckpointId(checkpoint), f"j/chk-{checkpoint}/_metadata", "00")
        kept = ids(store)[-keep:]
        store.trim(permit, CheckpointId(kept[0]))


def ids(store: CompletedCheckpointStore) -> list[int]:
    """Completed checkpoints in the store's order."""
    return [entry.checkpoint for entry in store.completed()]


class CompletedStoreSuite:
    """The scenarios; a subclass provides the fixture `medium`."""

    def test_sr1_an_empty_store_has_no_latest(self, medium: Medium) -> None:
        """sR1: nothing completed: no latest, before and after a claim."""
        store = medium.open()
        assert (store.latest(), store.completed()) == (None, [])
        store.claim()
        assert (store.latest(), store.completed()) == (None, [])

    def test_sr1_keeps_what_is_added_in_order(self, medium: Medium) -> None:
        """sR1: with room for four, two stay, in the order of their coming; the latest is the last."""
        store = medium.open()
        permit = store.claim()
        latest = []
        for checkpoint in (1, 3, 5):
            add(store, permit, checkpoint, keep=4)
            newest = store.latest()
            assert newest is not None
            latest.append(newest.checkpoint)
        assert (ids(store), latest) == ([1, 3, 5], [1, 3, 5])
        assert [entry.metadata for entry in store.completed()] == [f"j/chk-{i}/_metadata" for i in (1, 3, 5)]

    def test_sr1_keeping_one_removes_each_predecessor(self, medium: Medium) -> None:
        """sR1: with room for one, every addition replaces the one before."""
        store = medium.open()
        permit = store.claim()
        for checkpoint in (1, 2, 3, 4):
            add(store, permit, checkpoint, keep=1)
            assert ids(store) == [checkpoint]

    def test_sr1_a_terminal_end_removes_all(self, medium: Medium) -> None:
        """sR1: after a job has ended for good its store is empty, and another run begins anew."""
        store = medium.open()
        permit = store.claim()
        add(store, permit, 1, 2)
        store.close(permit, terminal=True)
        again = medium.open()
        assert ids(again) == []
        following = again.claim()
        assert following.generation > permit.generation
        add(again, following, 7)
        assert ids(medium.open()) == [7]

    def test_a_replaced_master_finds_no_place_after_a_terminal_end(self, medium: Medium) -> None:
        """Even in the empty store of an ended job whoever was replaced before completes nothing."""
        old, new = medium.open(), medium.open()
        old_permit = old.claim()
        new_permit = new.claim()
        new.close(new_permit, terminal=True)
        for _ in range(2):
            with pytest.raises(FencedError):
                add(old, old_permit, 1)
        medium.open().claim()
        with pytest.raises(FencedError):
            add(old, old_permit, 1)
        assert ids(medium.open()) == []

    def test_sr4_reopened_store_goes_on(self, medium: Medium) -> None:
        """sR4: keep three: added 0, 1, 2; reopened the latest is 2, and adding 3 leaves 1, 2, 3."""
        store = medium.open()
        permit = store.claim()
        add(store, permit, 1, 2, 3, keep=3)
        reopened = medium.open()
        latest = reopened.latest()
        assert latest is not None
        assert latest.checkpoint == 3
        add(reopened, reopened.claim(), 4, keep=3)
        assert ids(reopened) == [2, 3, 4]

    def test_sr4_suspended_job_keeps_its_entries(self, medium: Medium) -> None:
        """sR4: a store given up for the next job master keeps everything, and the next one finds it."""
        store = medium.open()
        permit = store.claim()
        add(store, permit, 1, 2)
        store.close(permit, terminal=False)
        with pytest.raises(FencedError):
            add(store, permit, 3)
        following = medium.open()
        add(following, following.claim(), 3)
        assert ids(following) == [1, 2, 3]

    def test_sr4_ids_are_ordered_as_numbers(self, medium: Medium) -> None:
        """sR4: of 9, 10 and 11 the latest is 11: names are padded."""
        store = medium.open()
        add(store, store.claim(), 9, 10, 11)
        latest = medium.open().latest()
        assert latest is not None
        assert latest.checkpoint == 11

    def test_a_damaged_entry_is_named_and_never_skipped(self, medium: Medium) -> None:
        """One broken entry makes reading fail, whichever it is; the message says which."""
        store = medium.open()
        permit = store.claim()
        add(store, permit, 1, 2)
        name = medium.damage(2)
        for read in (medium.open().latest, medium.open().completed):
            with pytest.raises(StorageError) as caught:
                read()
            assert name in str(caught.value)

    def test_a_replaced_master_is_fenced_everywhere(self, medium: Medium) -> None:
        """After another claim the old permit does nothing: no append, trim, check, id or end."""
        old, new = medium.open(), medium.open()
        old_permit = old.claim()
        add(old, old_permit, 1, 2)
        new_permit = new.claim()
        attempts: list[Callable[[], object]] = [
            lambda: old.append(old_permit, CheckpointId(3), "m", "00"),
            lambda: old.check(old_permit),
            lambda: old.trim(old_permit, CheckpointId(2)),
            lambda: old.close(old_permit, terminal=True),
        ]
        for attempt in attempts:
            with pytest.raises(FencedError):
                attempt()
        assert ids(old) == [1, 2], "whoever was replaced may still read"
        add(new, new_permit, 3)
        assert ids(new) == [1, 2, 3]

    def test_only_the_last_claimant_reserves_ids(self, medium: Medium) -> None:
        """Which changes no entry."""
        store = medium.open()
        permit = store.claim()
        add(store, permit, 1)
        store.reserve_ids(permit, CheckpointId(500))
        assert ids(medium.open()) == [1]
        following = store.claim()
        with pytest.raises(FencedError):
            store.reserve_ids(permit, CheckpointId(600))
        store.reserve_ids(following, CheckpointId(600))

    def test_ids_begin_above_all_that_were_completed(self, medium: Medium) -> None:
        """A claimant's first id is at least what it asks for, and above every completed one."""
        store = medium.open()
        permit = store.claim()
        assert store.first_checkpoint_id(CheckpointId(1)) == 1
        add(store, permit, 1, 2)
        again = medium.open()
        again.claim()
        assert again.first_checkpoint_id(CheckpointId(1)) > 2
        assert again.first_checkpoint_id(CheckpointId(1000)) >= 1000
