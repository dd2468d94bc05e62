"""What a child by fork may still do with what its parent has made."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import headgate
from headgate.common.process.children import OwnProcess, hide

SOURCE = Path(headgate.__file__).parent


def in_child(action: Callable[[], object]) -> int:
    """Exit code of a child that does something: 0 when it came to its end."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
            os._exit(0)
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_file_is_not_shared(tmp_path: Path) -> None:
    """What a child writes to a hidden file, or had buffered when it was made, reaches no disk."""
    with hide((tmp_path / "part").open("wb")) as file:
        file.write(b"one ")

        def write() -> None:
            file.write(b"of the child ")
            file.close()

        assert in_child(write) == 0
        file.write(b"two")
    assert (tmp_path / "part").read_bytes() == b"one two"


def test_a_connection_ends_with_its_owner() -> None:
    """A child can neither shut a hidden connection down nor keep it open."""
    ours, theirs = socket.socketpair()
    hide(ours)
    reading, writing = os.pipe()

    def stay() -> None:
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)
        os.close(writing)
        os.read(reading, 1)

    pid = os.fork()
    if pid == 0:
        try:
            stay()
        finally:
            os._exit(0)
    ours.sendall(b"still here")
    assert theirs.recv(100) == b"still here"
    ours.close()
    theirs.settimeout(10)
    assert theirs.recv(100) == b""
    os.close(writing)
    os.waitpid(pid, 0)
    os.close(reading)
    theirs.close()


def test_a_child_ends_where_it_comes_back() -> None:
    """With the code that Python itself would end with."""
    own = OwnProcess()

    def fork_and(leave: Callable[[], object]) -> int:
        def user_code() -> int:
            pid = os.fork()
            if pid == 0:
                sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - ends with the child
                leave()
            return pid

        return os.waitstatus_to_exitcode(os.waitpid(own.call(user_code), 0)[1])

    assert fork_and(lambda: sys.exit()) == 0
    assert fork_and(lambda: sys.exit(7)) == 7
    assert fork_and(lambda: sys.exit("a message")) == 1
    assert fork_and(lambda: 1 / 0) == 1
    assert fork_and(lambda: None) == 1


def test_the_end_of_a_process_is_its_own() -> None:
    """What is to be done at the end, or when an object is forgotten, is not done by children."""
    program = """
import os, sys
from headgate.common.process.children import at_exit, when_forgotten
class Thing: pass
thing = Thing()
at_exit(print, "end", flush=True)
when_forgotten(thing, print, "forgotten", flush=True)
child = os.fork() == 0
if not child:
    os.wait()
sys.exit()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == ["end", "forgotten"]


def test_all_ends_are_registered_where_children_are_thought_of() -> None:
    """`atexit` and `weakref.finalize` are used in `common/process/children.py` only."""
    uses = re.compile(r"atexit\.register\(|weakref\.finalize\(|util\.Finalize\(")
    found = [path for path in SOURCE.rglob("*.py") if uses.search(path.read_text())]
    assert found == [SOURCE / "common" / "process" / "children.py"]
