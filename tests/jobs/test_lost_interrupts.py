"""Ctrl-C that comes where Python drops exceptions still cancels the job."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import headgate as hg
from headgate.runtime.job.listener import JobListener
from headgate.testing.mini_cluster import MiniCluster


class Dropped:
    """Its finaliser is where the signal comes; Python prints what is raised in it, and goes on."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


class PressesOnce(JobListener):
    """Ctrl-C in a finaliser, in the driver's own thread."""

    def __init__(self) -> None:
        self.states: list[str] = []

    def running(self, attempt: int) -> None:
        Dropped()

    def ended(self, state: str) -> None:
        self.states.append(state)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_a_finaliser_cancels_the_job(tmp_path: Path) -> None:
    """The job would run for ever; it is cancelled, and the handler is as before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    listener = PressesOnce()
    try:
        env = hg.Environment(executor=MiniCluster(listener))
        env.generate(int, None, 1_000, uid="numbers").map(lambda number: number + 1).write_json(
            str(tmp_path), uid="out"
        )
        with pytest.raises(KeyboardInterrupt):
            env.execute("pressed")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert listener.states == ["cancelled"]
