"""Encodes control messages as bytes: msgspec's MessagePack over the types of `messages.py`.
Untyped values inside a message are decoded to MessagePack's types: a tuple becomes a list; integers beyond 64
bits cannot be encoded. Decoding never runs code, and happens only after the handshake.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import InternalError, ProtocolError
from headgate.runtime.protocol.frames import Frame, FrameKind, Part
from headgate.runtime.protocol.messages import FromWorker, ToWorker

M = TypeVar("M")

MESSAGE_SIZE_MAX: Final = 320 * 1024 * 1024
"""Largest control message in bytes: a program of 256 MiB with its state handles."""

_encoder: Final = msgspec.msgpack.Encoder()
_from_worker: Final[msgspec.msgpack.Decoder[FromWorker]] = msgpack_decoder(FromWorker)
_to_worker: Final[msgspec.msgpack.Decoder[ToWorker]] = msgpack_decoder(ToWorker)


def encode_message(message: FromWorker | ToWorker) -> bytes:
    """Return a control message as bytes; raise InternalError if a value cannot be encoded or it is too large.

    Example:
        >>> from headgate.runtime.protocol.messages import Trigger
        >>> decode_to_worker(encode_message(Trigger(attempt=1, checkpoint=7, trigger_ms=0))).checkpoint
        7
    """
    kind = type(message).__name__
    try:
        data = _encoder.encode(message)
    except (TypeError, ValueError, OverflowError) as error:
        raise InternalError(f"a {kind} message holds a value that cannot travel: {error}") from error
    if len(data) > MESSAGE_SIZE_MAX:
        raise InternalError(
            f"a {kind} message has {len(data)} bytes, the limit is {MESSAGE_SIZE_MAX}:"
            " ship less data inside the program, or keep less operator state in the checkpoint's metadata"
        )
    return data


def decode_from_worker(data: Part) -> FromWorker:
    """Return the message that a worker encoded with :func:`encode_message`, for the job master.
    ProtocolError: the bytes are no such message, as where the versions of Headgate differ.
    """
    return _decode(_from_worker, data, "from a worker")


def decode_to_worker(data: Part) -> ToWorker:
    """Return a control message of the job master; raise ProtocolError if the bytes are no such message."""
    return _decode(_to_worker, data, "from the job master")


def _decode(decoder: msgspec.msgpack.Decoder[M], data: Part, origin: str) -> M:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(
            f"a control message {origin} of {len(data)} bytes does not decode: {error}:"
            " run the same Headgate version on driver and workers"
        ) from error


def control_frame(data: bytes) -> Frame:
    return Frame(FrameKind.CONTROL, 0, 0, 0, (data,))
