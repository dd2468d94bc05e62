"""Which processes count as living."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from headgate.common.process.processes import process_lives
from headgate.runtime.job.black_box import PREFIX, remove_abandoned


def _zombie() -> subprocess.Popen[bytes]:
    """A child that has ended and that its parent has not waited for yet."""
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return child


def test_a_process_that_has_ended_does_not_live_although_its_parent_has_not_waited() -> None:
    """A zombie can do nothing any more."""
    child = _zombie()
    assert not process_lives(child.pid)
    child.wait()
    assert not process_lives(child.pid)


def test_a_process_lives_whatever_its_name() -> None:
    """The state stands behind the name, which may look like a state."""
    script = "import ctypes; ctypes.CDLL(None).prctl(15, b') Z 1'); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as child:
        time.sleep(0.2)  # until it has its name
        assert process_lives(child.pid)
        child.communicate(b"\n")


def test_the_box_of_a_worker_that_is_a_zombie_is_removed(tmp_path: Path) -> None:
    """In a container without an init process killed workers stay zombies; their boxes must not stay."""
    child = _zombie()
    box = tmp_path / f"{PREFIX}{child.pid}-abc"
    box.touch()
    remove_abandoned(tmp_path, older_than_s=-1)
    assert not box.exists()
    child.wait()
