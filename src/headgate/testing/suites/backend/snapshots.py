"""Tests of snapshots: each holds the state of its moment, and releases everything in the end."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from headgate.common.errors import StorageError
from headgate.state.backend import KeyedBackend, PendingSnapshot
from headgate.testing.suites.backend.bench import Bench
from headgate.testing.suites.backend.states import KEYS, Basket, bound, contents, touch
from headgate.testing.suites.backend.suite_bench import BackendTests


class SnapshotTests(BackendTests):
    """Tests of isolation, release and failure of snapshots, and of files that checkpoints share."""

    @pytest.mark.parametrize("turned", [False, True], ids=["oldest first", "newest first"])
    def test_a18_later_changes_do_not_reach_a_snapshot(self, bench: Bench, turned: bool) -> None:
        """Each of several pending snapshots holds the state of its own moment, whatever changes later."""
        backend, taken = bench.backend(), []
        for number in (1, 2, 3):
            for key in KEYS:
                touch(backend, key, number)
            backend.event_timers.delete(number - 1, "a")
            taken.append((number, contents([backend]), backend.snapshot_sync(number)))
        for key in KEYS[::2]:
            touch(backend, key, 9)
            for handle in backend.handles.values():
                handle.bind(key)
                handle.clear()
            backend.store()
        list(backend.event_timers.pop_due(2))
        for number, expected, pending in reversed(taken) if turned else taken:
            stored = bench.finish(backend, pending, number)
            assert contents([bench.backend(stored=[stored])]) == expected
            backend.settle()

    def test_a18_a_thread_writes_while_the_loop_goes_on(self, bench: Bench) -> None:
        """A thread writes a snapshot while state is written, deleted and snapshotted; it is not affected."""
        backend = bench.backend()
        for key in range(1500):
            with bound(backend, key) as handles:
                handles["count"].value = key + 1
                handles["basket"].value.items.append(str(key))
        expected, pending = contents([backend]), backend.snapshot_sync(1)
        with ThreadPoolExecutor(1) as thread:
            stored = thread.submit(bench.finish, backend, pending)
            rounds = 0
            while not stored.done() or rounds < 2:
                for key in range(0, 1500, 5):
                    with bound(backend, key) as handles:
                        handles["count"].clear()
                        handles["basket"].value.items.append("late")
                backend.snapshot_sync(2).release()
                backend.settle()
                rounds += 1
        assert contents([bench.backend(stored=[stored.result()])]) == expected

    @pytest.mark.parametrize("times", [1, 2])
    def test_a19_a_snapshot_may_be_given_up(self, bench: Bench, times: int) -> None:
        """A snapshot may be released unwritten, even twice, with no effect on state or later snapshots."""
        backend = bench.backend()
        for key in KEYS:
            touch(backend, key, 1)
        pending = backend.snapshot_sync(1)
        touch(backend, "a", 2)
        for _ in range(times):
            pending.release()
        touch(backend, "a", 3)
        expected = contents([backend])
        assert contents([bench.backend(stored=[bench.store(backend, 2)])]) == expected
        pending.release()
        assert contents([backend]) == expected

    @pytest.mark.parametrize("end", ["release", "store", "fail"])
    def test_a19_what_is_done_with_is_let_go(self, bench: Bench, end: str) -> None:
        """Once a snapshot has ended, in any way, a value that is no longer in the state is freed."""
        backend = bench.backend()
        with bound(backend, "a") as handles:
            basket = handles["basket"].value
            basket.items.append("x")
        value = weakref.ref(basket)
        del basket
        pending = backend.snapshot_sync(1)
        with bound(backend, "a") as handles:
            handles["basket"].value = Basket(["new"])
        self._ended(bench, backend, pending, end)
        del pending
        assert _is_freed(value, backend), f"a snapshot that ended by {end} holds a value"
        assert dict(backend.scan("basket")) == {"a": Basket(["new"])}

    def test_a19_a_checkpoint_that_the_storage_refuses_leaves_nothing(self, bench: Bench) -> None:
        """If the storage fails, the checkpoint is a StorageError, leaves no file, and the next succeeds."""
        backend = bench.backend()
        for key in KEYS:
            touch(backend, key, 1)
        bench.storage_works = False
        with pytest.raises(StorageError):
            bench.store(backend, 1)
        assert bench.files == {}
        bench.storage_works = True
        touch(backend, "a", 2)
        assert contents([bench.backend(stored=[bench.store(backend, 2)])]) == contents([backend])

    @pytest.mark.parametrize("end", ["release", "store"])
    def test_a19_a_snapshot_outlives_its_backend(self, bench: Bench, end: str) -> None:
        """A snapshot can be written or released after its backend was closed, as after a failed attempt."""
        backend = bench.backend()
        touch(backend, "a", 1)
        expected, pending = contents([backend]), backend.snapshot_sync(1)
        backend.close()
        backend.close()
        if end == "release":
            pending.release()
        else:
            stored = bench.finish(backend, pending)
            assert contents([bench.backend(stored=[stored])]) == expected

    def test_a21_a_checkpoint_refers_only_to_what_is_kept(self, bench: Bench) -> None:
        """A checkpoint restores after all files it does not name were removed, also after aborted ones."""
        backend, completed, kept = bench.backend(), 0, None
        for number in range(1, 7):
            for key in range(number * 20, number * 20 + 40):
                touch(backend, key, number)
            expected = contents([backend])
            stored = bench.store(backend, number, completed)
            if number % 3 == 2:
                bench.abort(number, stored)
                continue
            completed, kept = number, stored
            bench.keep_only([kept])
            assert contents([bench.backend(stored=[kept])]) == expected

    def test_a21_checkpoints_go_on_after_a_restore(self, bench: Bench) -> None:
        """A checkpoint after a restore may refer to files of the restored one, and to no others."""
        backend, completed, stored = bench.backend(), 0, None
        for number in (1, 2, 3):
            for key in KEYS:
                touch(backend, key, number)
            expected = contents([backend])
            stored = bench.store(backend, number, completed)
            bench.keep_only([stored])
            completed = number
            backend.close()
            backend = bench.backend(stored=[stored])
            assert contents([backend]) == expected

    def test_two_at_a_time_need_only_what_was_complete_when_they_were_drawn(self, bench: Bench) -> None:
        """Of two pending checkpoints the second may complete alone: it needs no file of the other one."""
        backend = bench.backend()
        touch(backend, "a", 1)
        first = bench.store(backend, 1)
        taken = []
        for number in (2, 3):
            touch(backend, "b", number)
            taken.append((contents([backend]), backend.snapshot_sync(number, 1)))
        stored = [bench.finish(backend, pending, 2 + place) for place, (_, pending) in enumerate(taken)]
        bench.keep_only([first, stored[1]])
        assert contents([bench.backend(stored=[stored[1]])]) == taken[1][0]

    def test_a_savepoint_stands_alone_and_nobody_goes_on_from_it(self, bench: Bench) -> None:
        """A savepoint needs no earlier file, no later checkpoint needs it, and no change is lost by it."""
        backend = bench.backend()
        touch(backend, "a", 1)
        first = bench.store(backend, 1)
        touch(backend, "b", 2)
        expected = contents([backend])
        savepoint = bench.finish(backend, backend.snapshot_sync(2, None), 2)
        assert not set(first.handles()) & set(savepoint.handles())
        assert contents([bench.backend(stored=[savepoint])]) == expected
        touch(backend, "c", 3)
        later = bench.store(backend, 3, 1)
        bench.keep_only([first, later])
        assert contents([bench.backend(stored=[later])]) == contents([backend])

    def _ended(self, bench: Bench, backend: KeyedBackend, pending: PendingSnapshot, end: str) -> None:
        if end == "release":
            pending.release()
        elif end == "store":
            bench.finish(backend, pending)
        else:
            bench.storage_works = False
            with pytest.raises(StorageError):
                bench.finish(backend, pending)
            bench.storage_works = True


def _is_freed(value: weakref.ref[Basket], backend: KeyedBackend) -> bool:
    for _ in range(20):
        backend.settle()
    gc.collect()
    return value() is None
