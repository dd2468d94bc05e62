"""How long Arrow keeps freed memory in worker processes, and nowhere else."""

from __future__ import annotations

import os

import pytest

import headgate as hg
from headgate.testing import MiniCluster, ProcessCluster


def delay_in(executor: MiniCluster | ProcessCluster) -> list[str | None]:
    """Return what Arrow was told in a worker of `executor`."""
    env = hg.Environment(parallelism=1, executor=executor)
    one = env.from_collection([0], uid="one")
    return one.map(lambda _: os.environ.get("MIMALLOC_PURGE_DELAY"), uid="look").collect()


def test_a_worker_process_keeps_it_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is a thread of the program's own process leaves that process as it is."""
    monkeypatch.delenv("MIMALLOC_PURGE_DELAY", raising=False)
    assert delay_in(ProcessCluster()) == ["10000"]
    assert delay_in(MiniCluster()) == [None]
    monkeypatch.setenv("MIMALLOC_PURGE_DELAY", "20")
    assert delay_in(ProcessCluster()) == ["20"]
