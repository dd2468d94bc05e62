"""A second interpreter, to which the serializer suite ships serializers as a job ships them to workers. This
file is also its program: run as a script, it imports neither the test kit nor pytest.
"""

from __future__ import annotations

import functools
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any, Final, TypeVar

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.plain_data import Description
from headgate.common.process.children import at_exit
from headgate.runtime.job.shipped_program import received, shipped
from headgate.serde.serializer import TypeSerializer

T = TypeVar("T")

_LENGTH: Final = struct.Struct(">Q")


class Task(msgspec.Struct, array_like=True):
    """Request to the other process: decode a batch with a shipped serializer, and encode it again."""

    serializer: bytes  # as it is shipped to workers
    batch: bytes  # of the encoded values
    count: int  # of the values


class Answer(msgspec.Struct, array_like=True):
    """Answer of the other process: the batch it encoded and the serializer's description, or the error."""

    batch: bytes  # of the encoded values
    description: bytes  # as msgpack
    error: str = ""  # none if empty


class OtherProcess:
    """A second interpreter, which decodes and encodes values as a worker would; it ends with this process."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-P", __file__]
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter and this file
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        at_exit(self._end)

    def rewritten(self, serializer: TypeSerializer[T], values: Sequence[T]) -> tuple[bytes, Description]:
        """Ship `serializer` and the encoded `values` to the process; return the batch that it encodes from
        the values it decoded, and its serializer's description. AssertionError if that fails there.
        """
        task = Task(shipped(serializer), serializer.encode_many(values), len(values))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        _send(self._process.stdin, msgspec.msgpack.encode(task))
        data = _receive(self._process.stdout)
        assert data, f"{serializer.name} ended the process that it was shipped to"
        answer = msgpack_decoder(Answer).decode(data)
        assert not answer.error, f"{serializer.name} does not work where it is shipped to: {answer.error}"
        return answer.batch, msgspec.msgpack.decode(answer.description)

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()


@functools.cache
def other_process() -> OtherProcess:
    return OtherProcess()


def _answer(task: Task) -> Answer:
    try:
        serializer: TypeSerializer[Any] = received(task.serializer)
        values = serializer.decode_stored(task.batch, task.count)
        return Answer(serializer.encode_many(values), msgspec.msgpack.encode(serializer.describe()))
    except Exception as error:  # the user's code raises whatever it likes
        return Answer(b"", b"", f"{type(error).__name__}: {error}")


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    head = stream.read(_LENGTH.size)
    return stream.read(_LENGTH.unpack(head)[0]) if len(head) == _LENGTH.size else b""


def _serve() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the user's code may print
    while task := _receive(sys.stdin.buffer):
        _send(answers, msgspec.msgpack.encode(_answer(msgpack_decoder(Task).decode(task))))


if __name__ == "__main__":
    _serve()
