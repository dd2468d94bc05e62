"""What runs in a process of the process cluster: reads its order, becomes one slot of the gang.

The order comes through the standard input, a socket; by the same way the process says why it stops, if it
can. User code finds an empty standard input, and its standard output is the standard error, as in a worker
of Spark.
"""

from __future__ import annotations

import io
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.ports import UserCode
from headgate.common.process.children import hide
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.common.settings.config import Config
from headgate.runtime.worker.worker_process import EXIT_FENCED, WorkerSpec, limit_threads, run_worker

EXIT_RAISED: Final = 70
"""Exit code of a worker that ended with an exception of ours; it has said which."""

FINISHED: Final = b"\0"
"""What a worker says that the job has let go; user code that calls `os._exit(0)` says nothing."""

REASON_SIZE_MAX: Final = 4_000
"""Longest reason that a process gives for its end, in bytes; it fits the socket's buffer."""


class Order(msgspec.Struct, frozen=True):
    """What a process is to be.

    Attributes:
        worker: how it finds the job master.
        gang: the gang's number.
        slot: the slot's number.
        program: name of the program that brings code of its own; None where there is none.
        paths: what the program brings.
        settings: the options of its loader, as texts.
    """

    worker: WorkerSpec
    gang: int
    slot: int
    program: str | None = None
    paths: list[str] = []
    settings: dict[str, str] = {}


def main() -> None:
    """Be the worker that the order on the standard input describes."""
    with _take_standard_input() as line:
        order = msgpack_decoder(Order).decode(_everything(line))
        limit_threads()

        def abandon(reason: str) -> None:
            _say(line, reason.encode(errors="replace"))
            os._exit(EXIT_FENCED)

        try:
            with _code_of(order) as code:
                run_worker(order.worker, order.gang, order.slot, abandon, code)
        except Exception as error:
            _say(line, f"{type(error).__name__}: {error}".encode(errors="replace"))
            raise SystemExit(EXIT_RAISED) from None
        _say(line, FINISHED)


def _take_standard_input() -> socket.socket:
    """The socket that was the standard input, where no child of user code inherits it."""
    line = hide(socket.socket(fileno=os.dup(0)))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a process that is killed has told what it printed
    return line


def _everything(line: socket.socket) -> bytes:
    parts = []
    while part := line.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


@contextmanager
def _code_of(order: Order) -> Iterator[UserCode]:
    if order.program is None:
        yield SAME_INTERPRETER
        return
    from headgate.usercode.program_code import open_along

    settings = Config.from_texts(order.settings)
    with closing(open_along(order.program, [Path(path) for path in order.paths], settings)) as code:
        yield code


def _say(line: socket.socket, what: bytes) -> None:
    with suppress(OSError):  # nobody may be there to be told
        line.send(what[:REASON_SIZE_MAX], socket.MSG_DONTWAIT)
