"""Samples of a worker's loop: when they are taken, and which words a stack has."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

import headgate
from headgate.common.process.system import Mailbox
from headgate.core.bottleneck.areas import (
    CHECKPOINT,
    FRAMEWORK,
    IDLE,
    ROCKSDB,
    SENDING,
    SERIALIZATION,
)
from headgate.runtime.worker.operators.operator_contract import frames_outward
from headgate.runtime.worker.stack_samples import StackSamples, area_of, stack_text


def test_nothing_is_sampled_unless_it_is_wanted() -> None:
    """A number begins a sampling, once; another one begins anew, and 0 ends it."""
    samples = StackSamples(threading.get_ident())
    samples.wanted(0)
    assert samples.found() is None
    samples.wanted(4)
    first = samples._found
    samples.wanted(4)
    assert samples._found is first
    assert samples.found() == (4, dict(first))
    samples.wanted(5)
    assert samples._found is not first
    samples.wanted(0)
    assert samples.found() is None
    assert sum(thread.name == "headgate-samples" for thread in threading.enumerate()) <= 2


def test_a_loop_that_waits_is_idle() -> None:
    """And one that works for no operator is Headgate's own."""
    mailbox, waits = Mailbox(), threading.Event()

    def loop() -> None:
        waits.set()
        mailbox.wait(20_000)

    thread = threading.Thread(target=loop)
    thread.start()
    waits.wait()
    found = FRAMEWORK
    while found != IDLE:
        found = stack_text(list(frames_outward(sys._current_frames().get(thread.ident or 0))))
    mailbox.wake()
    thread.join()
    assert stack_text(list(frames_outward(sys._getframe()))) == FRAMEWORK
    assert stack_text([]) == FRAMEWORK


@pytest.mark.parametrize(
    ("files", "area"),
    [
        (["runtime/worker/exchange/output.py", "runtime/worker/worker_loop.py"], SENDING),
        (["serde/row_codec.py", "runtime/worker/exchange/output.py"], SERIALIZATION),
        (["serde/row_codec.py", "state/rocksdb/rocksdb_map.py"], ROCKSDB),
        (["state/rocksdb/snapshot.py", "runtime/worker/snapshot/snapshot_taker.py"], CHECKPOINT),
        (["state/heap/heap_state.py", "runtime/worker/operators/keyed_operator.py"], FRAMEWORK),
        ([], FRAMEWORK),
    ],
)
def test_an_area_is_that_of_the_whole_call(files: list[str], area: str) -> None:
    """Records are encoded for a reason: state in RocksDB counts as that, and both in a checkpoint as that."""
    root = Path(headgate.__file__).parent
    assert area_of([f"{root}/{file}" for file in files]) == area
    assert area_of([f"/elsewhere/{file}" for file in files]) == FRAMEWORK
