"""The backend suite finds each of the defects that it is there for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.api.declared.keyed_states import StateDescriptor
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.snapshots import KeyedStateHandle
from headgate.testing.suites import StateBackendSuite
from headgate.testing.suites.backend.lifetimes import LIVING


class Suite(StateBackendSuite):
    """Over any class that is made like the heap backend."""

    def __init__(self, cls: Callable[..., Any] = HeapKeyedBackend) -> None:
        self.cls = cls

    def new_backend(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> Any:
        return self.cls(descriptors, *groups, max_parallelism)


class Passing:
    """A snapshot that is another one, but for what a subclass changes."""

    def __init__(self, pending: Any) -> None:
        self.pending = pending

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pending, name)


class DrawsLate(HeapKeyedBackend):
    """Takes the state when it is written."""

    def snapshot_sync(self, checkpoint: int = 0, completed: int = 0) -> Any:
        backend, draw = self, super().snapshot_sync

        class Late:
            keep = None

            def store_with(self, new_writer: Any) -> KeyedStateHandle:
                return draw().store_with(new_writer)

            def store(self, uid: str, files: Any) -> KeyedStateHandle:
                return draw().store(uid, files)

            def release(self) -> None:
                backend.settle()

        return Late()


class NeverLetsGo(HeapKeyedBackend):
    """Keeps the values of each snapshot."""

    kept: Any = None

    def snapshot_sync(self, checkpoint: int = 0, completed: int = 0) -> Any:
        self.kept = list(self.scan("basket"))
        return super().snapshot_sync(checkpoint, completed)


class ForgetsTimers(HeapKeyedBackend):
    def restore(self, blobs: Any) -> None:
        super().restore(blobs)
        list(self.event_timers.pop_due(10**6))


class TakesDamage(HeapKeyedBackend):
    def restore(self, blobs: Any) -> None:
        try:
            super().restore(blobs)
        except hg.StorageError:
            self.handles["count"].bind("a")


class MixesKeysUp(HeapKeyedBackend):
    """By their text."""

    def bind(self, key: Any) -> None:
        super().bind(key.decode() if isinstance(key, bytes) else key)


class RefersToThePast(HeapKeyedBackend):
    """Shares what the checkpoint before stored, whether that completed or not."""

    last: Any = None

    def snapshot_sync(self, checkpoint: int = 0, completed: int = 0) -> Any:
        pending, backend = Passing(super().snapshot_sync(checkpoint, completed)), self
        real_store = pending.pending.store

        def store(uid: str, files: Any) -> KeyedStateHandle:
            before, backend.last = backend.last, real_store(uid, files)
            return before if before is not None and checkpoint % 3 == 0 else backend.last

        pending.store = store  # type: ignore[attr-defined]
        return pending


class TakesAll(HeapKeyedBackend):
    """Does not look at its key groups at a restore."""

    def restore(self, blobs: Any) -> None:
        own, self.groups = self.groups, (0, self.max_parallelism - 1)
        try:
            super().restore(blobs)
        except hg.InternalError:
            self.groups = own
            super().restore(blobs)
        self.groups = own


class ShowsLiveValues(HeapKeyedBackend):
    """A look changes what it looks at."""

    def peek(self, name: str, key: Any) -> Any:
        self.handles["basket"].bind("a")
        self.handles["basket"].value.items.append("seen")  # type: ignore[union-attr]
        return super().peek(name, key)


class TakesAnyFormat(HeapKeyedBackend):
    """Begins empty where it cannot read."""

    def restore(self, blobs: Any) -> None:
        with suppress(hg.UsageError):
            super().restore(blobs)


class ForgetsStamps(HeapKeyedBackend):
    """Entries live on as if they were written at the restore."""

    def restore(self, blobs: Any) -> None:
        super().restore(blobs)
        for name in self.handles:
            if "#" in name:
                self._tables[name].entries.clear()


FOUND = (AssertionError, pytest.fail.Exception, hg.HeadgateError)
"""How a test says that something is wrong."""

DEFECTS: list[tuple[Any, str, dict[str, Any]]] = [
    (DrawsLate, "test_a18_later_changes_do_not_reach_a_snapshot", {"turned": False}),
    (NeverLetsGo, "test_a19_what_is_done_with_is_let_go", {"end": "store"}),
    (ForgetsTimers, "test_timers_fire_in_order_of_time_after_a_restore", {}),
    (ForgetsTimers, "test_random_programs_hold_what_dicts_would", {"seed": 1}),
    (TakesDamage, "test_damage_behind_the_storage_s_checksums_is_refused", {}),
    (MixesKeysUp, "test_keys_of_every_sort_are_apart", {}),
    (RefersToThePast, "test_a21_a_checkpoint_refers_only_to_what_is_kept", {}),
    (TakesAll, "test_rescaling_keeps_everything", {"parallelisms": (1, 2, 1)}),
    (TakesAnyFormat, "test_ss7_an_incompatible_serializer_is_refused", {"kind": "one"}),
    (ForgetsStamps, "test_time_goes_on_across_a_checkpoint", {"changed": LIVING}),
    (ShowsLiveValues, "test_a_look_from_outside_gives_stored_bytes", {}),
]


@pytest.mark.parametrize(("cls", "test", "more"), DEFECTS, ids=lambda case: getattr(case, "__name__", None))
def test_each_defect_is_found(cls: Any, test: str, more: dict[str, Any], tmp_path: Path) -> None:
    """By the test that is about it; the sound backend passes it."""
    (tmp_path / "sound").mkdir()
    suite = Suite()
    with suite.opened(tmp_path / "sound") as bench:
        getattr(suite, test)(bench=bench, **more)
    suite = Suite(cls)
    with suite.opened(tmp_path) as bench, pytest.raises(FOUND):
        getattr(suite, test)(bench=bench, **more)


def test_files_that_are_left_are_found(tmp_path: Path) -> None:
    """On the local disk, by name."""
    suite = Suite()
    why = r"left 1 files and folders, the first is .*/left"
    with pytest.raises(AssertionError, match=why), suite.opened(tmp_path) as bench:
        suite.test_nothing_is_restored_from_nothing(bench)
        (suite.folder / "left").touch()
