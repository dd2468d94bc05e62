"""Tests of restores: each subtask gets exactly its own state and timers, or the restore is refused."""

from __future__ import annotations

import pytest

from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.state.snapshots import KeyedStateHandle
from headgate.testing.suites.backend.bench import Bench, owner_of
from headgate.testing.suites.backend.states import GROUPS, KEYS, STATES, bound, contents, touch
from headgate.testing.suites.backend.suite_bench import BackendTests
from headgate.testing.suites.value_checks import cut_short, snapshot_blob, with_a_flipped_bit


class RestoreTests(BackendTests):
    """Tests of restores at the same and other parallelism, from nothing, from damaged or misfitting state."""

    def test_nothing_is_restored_from_nothing(self, bench: Bench) -> None:
        """A restore from no checkpoint, or from the checkpoint of an empty state, gives an empty state."""
        empty = contents([bench.backend()])
        assert contents([bench.backend(stored=[])]) == empty
        assert contents([bench.backend(stored=[bench.store(bench.backend())])]) == empty

    @pytest.mark.parametrize("parallelisms", [(1, 2, 1), (3, 2, 5)], ids=str)
    def test_rescaling_keeps_everything(self, bench: Bench, parallelisms: tuple[int, ...]) -> None:
        """After a rescale each subtask has the state of its own key groups, no other, and works with it."""
        one = bench.backend()
        stored: list[KeyedStateHandle] = []
        for number, parallelism in enumerate(parallelisms, 1):
            subtasks = bench.subtasks(parallelism, stored)
            assert contents(subtasks) == contents([one])
            for key in (*KEYS, *range(number * 10)):
                touch(owner_of(subtasks, key), key, number)
                touch(one, key, number)
            stored = bench.store_all(subtasks, number)
        (last,) = bench.subtasks(1, stored)
        assert contents([last]) == contents([one])

    def test_timers_fire_in_order_of_time_after_a_restore(self, bench: Bench) -> None:
        """Restored timers fire in the order of time; deleted and fired ones are not restored."""
        backend = bench.backend()
        for timestamp in (5, 1, 4, 2, 3, 0):
            for key in "abc":
                backend.event_timers.register(timestamp, key)
        list(backend.event_timers.pop_due(0))
        backend.event_timers.delete(4, "b")
        restored = bench.backend(stored=[bench.store(backend)])
        fired = list(restored.event_timers.pop_due(10))
        assert [timestamp for timestamp, _ in fired] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5]
        assert len(set(fired)) == 14
        assert (4, "b") not in fired

    def test_only_an_empty_backend_is_restored(self, bench: Bench) -> None:
        """Restoring into a backend that holds state raises InternalError."""
        backend = bench.backend()
        touch(backend, "a", 1)
        with pytest.raises(InternalError, match="already holds some"):
            bench.restore(backend, [])

    def test_another_number_of_key_groups_is_refused(self, bench: Bench) -> None:
        """A restore with another number of key groups (max parallelism) raises UsageError."""
        filled = bench.backend()
        touch(filled, "a", 1)
        stored = [bench.store(filled)]
        with pytest.raises(UsageError, match=f"max parallelism {GROUPS} and the program has {2 * GROUPS}"):
            bench.backend(groups=(0, 2 * GROUPS - 1), stored=stored, max_parallelism=2 * GROUPS)

    @pytest.mark.parametrize(
        "ranges",
        [[(0, 8), (8, 15)], [(0, 15), (0, 15)], [(0, 6), (8, 15)], [(0, 6)], [(3, 15)]],
        ids=["one group twice", "all twice", "a hole", "no end", "no beginning"],
    )
    def test_each_key_group_is_in_exactly_one_checkpoint(
        self, bench: Bench, ranges: list[tuple[int, int]]
    ) -> None:
        """A restore with a key group that is in two checkpoints, or in none, raises InternalError."""
        stored = [bench.store(bench.backend(groups=groups), subtask=n) for n, groups in enumerate(ranges)]
        with pytest.raises(InternalError, match="key group"):
            bench.backend(stored=stored)

    def test_states_come_and_empty_ones_go(self, bench: Bench) -> None:
        """A new state has its default; a state without entries may be dropped; dropping others is refused."""
        few = {"count": STATES["count"], "log": STATES["log"]}
        backend = bench.backend(few)
        with bound(backend, "a") as handles:
            handles["count"].value = 7
        wide = bench.backend(stored=[bench.store(backend)])
        assert dict(wide.scan("count")) == {"a": 7}
        assert not list(wide.keys("basket"))
        narrow = {"count": STATES["count"]}
        again = bench.backend(narrow, stored=[bench.store(wide)])
        assert dict(again.scan("count")) == {"a": 7}
        with pytest.raises(UsageError, match="holds state 'count', which the program does not declare"):
            bench.backend({"log": STATES["log"]}, stored=[bench.store(again)])

    def test_any_damage_in_the_storage_is_refused(self, bench: Bench) -> None:
        """A flipped bit or a missing end of any file is a StorageError, before anything is decoded."""
        backend = bench.backend()
        for number, key in enumerate(KEYS, 1):
            touch(backend, key, number)
        stored = bench.store(backend)
        assert bench.files
        for name, sound in list(bench.files.items()):
            for damaged in (*with_a_flipped_bit(sound, 8), *cut_short(sound, 4)):
                bench.files[name] = damaged
                self._is_refused(bench, stored)
            del bench.files[name]
            self._is_refused(bench, stored)
            bench.files[name] = sound
        assert contents([bench.backend(stored=[stored])]) == contents([backend])

    def test_damage_behind_the_storage_s_checksums_is_refused(self, bench: Bench) -> None:
        """Damage that only a state blob's own lengths and checksums can show raises StorageError."""
        backend = bench.backend()
        for number, key in enumerate(KEYS, 1):
            touch(backend, key, number)
        blob = snapshot_blob(backend.snapshot_sync())
        for damaged in (*with_a_flipped_bit(blob, 25), *cut_short(blob, 5), blob + b"\0"):
            backend = bench.backend()
            with pytest.raises(StorageError):
                backend.restore([damaged])
            backend.close()

    def _is_refused(self, bench: Bench, stored: KeyedStateHandle) -> None:
        backend = bench.backend()
        with pytest.raises(StorageError):
            bench.restore(backend, [stored])
        backend.close()
