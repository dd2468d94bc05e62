"""The main program of a process cluster's worker process: reads its order, then runs one worker of a gang.

Standard input is a socket, which brings the order and takes the report why the process stops. User code finds
an empty standard input, and its standard output is the standard error, as in a worker of Spark.
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
"""Exit code of a worker process that ended with an exception and has reported it."""

FINISHED: Final = b"\0"
"""Report of a worker that ended in order; user code that calls `os._exit(0)` sends none."""

REASON_SIZE_MAX: Final = 4_000
"""Longest reason that a process gives for its end, in bytes; it fits the socket's buffer."""


class Order(msgspec.Struct, frozen=True):
    """Instructions to a new process: which worker to run, for which job master, with which user code."""

    worker: WorkerSpec  # how it finds the job master
    gang: int  # its number in the job
    slot: int  # of the worker in the gang, from 0
    program: str | None = None  # name of the program that brings code of its own
    paths: list[str] = []  # artifacts of that program
    settings: dict[str, str] = {}  # the options of its loader, as texts


def main() -> None:
    """Run the worker ordered on standard input and report how it ended. The process exits with EXIT_RAISED if
    the worker raised, at once with EXIT_FENCED if the worker must give up, as without the job master.
    """
    with _take_standard_input() as connection:
        order = msgpack_decoder(Order).decode(_everything(connection))
        limit_threads()

        def abandon(reason: str) -> None:
            _report(connection, reason.encode(errors="replace"))
            os._exit(EXIT_FENCED)

        try:
            with _code_of(order) as code:
                run_worker(order.worker, order.gang, order.slot, abandon, code)
        except Exception as error:
            _report(connection, f"{type(error).__name__}: {error}".encode(errors="replace"))
            raise SystemExit(EXIT_RAISED) from None
        _report(connection, FINISHED)


def _take_standard_input() -> socket.socket:
    connection = hide(socket.socket(fileno=os.dup(0)))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a process that is killed has shown what it printed
    return connection


def _everything(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@contextmanager
def _code_of(order: Order) -> Iterator[UserCode]:
    if order.program is None:
        yield SAME_INTERPRETER
        return
    from headgate.usercode.program_code import open_along

    settings = Config.from_texts(order.settings)
    with closing(open_along(order.program, [Path(path) for path in order.paths], settings)) as code:
        yield code


def _report(connection: socket.socket, what: bytes) -> None:
    with suppress(OSError):  # the driver may have exited
        connection.send(what[:REASON_SIZE_MAX], socket.MSG_DONTWAIT)
