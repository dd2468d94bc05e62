"""Tests of state with a time to live, wrapped around the backend under test as in an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.api.declared.state_ttl import StateTtl
from headgate.state.backend import KeyedBackend
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.ttl.backend import TtlKeyedBackend
from headgate.state.ttl.declared import with_stamps
from headgate.testing.manual_clock import ManualClock
from headgate.testing.suites.backend.bench import Bench
from headgate.testing.suites.backend.states import STATES, touch
from headgate.testing.suites.backend.suite_bench import BackendTests
from headgate.testing.suites.value_checks import snapshot_blob

LIVING = {name: replace(state, ttl=StateTtl(10)) for name, state in STATES.items()}
"""All states of the suite, with a time to live of 10 ms."""


class LifetimeTests(BackendTests):
    """Tests that entries expire by the clock, also across checkpoints, and are then in no full snapshot."""

    def test_entries_end(self, bench: Bench) -> None:
        """An entry written at 0 ms to live 10 ms is there at 9 ms, not at 10 ms, in each kind of state."""
        clock = ManualClock()
        backend = _backend(bench, clock, LIVING)
        touch(backend, "a", 3)
        clock.advance(9)
        assert _held(backend, "a") == _held(_touched(bench), "a")
        clock.advance(1)
        assert _held(backend, "a") == _held(bench.backend(), "a")

    @pytest.mark.parametrize("changed", [LIVING, STATES], ids=["kept", "switched off"])
    def test_time_goes_on_across_a_checkpoint(
        self, bench: Bench, changed: Mapping[str, StateDescriptor]
    ) -> None:
        """An entry written at 0 ms expires at 10 ms in a restored job, unless expiry was switched off."""
        clock = ManualClock()
        backend = _backend(bench, clock, LIVING)
        touch(backend, "a", 3)
        clock.advance(5)
        restored = _backend(bench, clock, changed, bench.store(backend))
        clock.advance(4)
        assert _held(restored, "a") == _held(_touched(bench), "a")
        clock.advance(1)
        ended = changed is LIVING
        assert _held(restored, "a") == _held(bench.backend() if ended else _touched(bench), "a")

    def test_what_has_ended_is_not_in_a_whole_snapshot(self, bench: Bench) -> None:
        """Expired entries are left out when a complete snapshot is written, so they are never restored."""
        clock = ManualClock()
        backend = _backend(bench, clock, LIVING)
        touch(backend, "a", 3)
        clock.advance(10)
        touch(backend, "b", 3)
        blob = snapshot_blob(backend.snapshot_sync())
        plain = bench.backend()
        plain.restore([blob])
        assert {name: list(plain.keys(name)) for name in STATES} == {name: ["b"] for name in STATES}

    def test_state_without_stamps_counts_as_written_at_the_restore(self, bench: Bench) -> None:
        """Restored state without write times expires as if it was written at the restore."""
        clock = ManualClock(100)
        stored = bench.store(_touched(bench))
        backend = _backend(bench, clock, LIVING, stored)
        clock.advance(9)
        assert _held(backend, "a") == _held(_touched(bench), "a")
        clock.advance(1)
        assert _held(backend, "a") == _held(bench.backend(), "a")


def _backend(
    bench: Bench,
    clock: ManualClock,
    states: Mapping[str, StateDescriptor],
    stored: KeyedStateHandle | None = None,
) -> KeyedBackend:
    backend = bench.backend(with_stamps(states))
    if states is not STATES:
        backend = TtlKeyedBackend(backend, states, clock.now_ms, clock.now_ms)
    if stored is not None:
        bench.restore(backend, [stored])
    return backend


def _touched(bench: Bench) -> KeyedBackend:
    backend = bench.backend()
    touch(backend, "a", 3)
    return backend


def _held(backend: KeyedBackend, key: str) -> dict[str, Any]:
    backend.bind(key)
    found: dict[str, Any] = {}
    for name, handle in backend.handles.items():
        kind = STATES[name].kind
        if kind == "value":
            found[name] = repr(handle.value)
        else:
            found[name] = list(handle.items()) if kind == "map" else handle.get()
    backend.store()
    return found
