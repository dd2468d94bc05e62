"""The handshake on every new connection: both sides prove the job's secret, then identify themselves.

Four messages, all of known or bounded length; C connects, S listens::

    C -> S   magic, version, purpose digest, nonce of C
    S -> C   magic, version, nonce of S, proof of S
    C -> S   proof of C, length and text of C's Hello        (the proof covers the Hello)
    S -> C   proof of the verdict, verdict, length and text of S's Hello or of the refusal

A proof is HMAC-SHA256 with the job's secret over the role, the purpose, both nonces and the text, so it
cannot be replayed, reflected, or used at a port of another purpose. Nothing of an unproven peer is decoded,
and at most `MESSAGE_SIZE_MAX` bytes of it are held. The classes are pure: bytes in, bytes out; :func:`greet`
runs the connecting side on a blocking socket, `acceptor.py` the listening side. The connection is not
encrypted afterwards, which would take TLS below.
"""

from __future__ import annotations

import hmac
import socket
import struct
from abc import ABC, abstractmethod
from enum import Enum, IntEnum
from typing import Annotated, Final, NamedTuple

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import FencedError, InternalError, OperatingError, ProtocolError
from headgate.common.files.durable import clock
from headgate.common.files.durable import sha256 as sha256_of

_Number = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The identity that a process shows in the handshake: its job, attempt, slot and purpose."""

    job: str  # id of the job
    generation: _Number  # of the job master
    attempt: _Number  # the deployment; 0 on control links, which outlive attempts
    slot: _Number  # slot of the process; 0 for the job master
    gang: _Number  # number of the worker's gang; 0 for the job master and on data connections
    purpose: str  # `"data"` or `"control"`; the same on both sides


class Verdict(IntEnum):
    """The listener's decision about an authenticated Hello; FENCED: the peer was replaced and must stop."""

    WELCOME = 0
    REFUSED = 1  # not now or not here, for the reason in the text
    FENCED = 2  # the connecting side was replaced by a newer process and must stop


class Refusal(NamedTuple):
    """The reason for which the listening side refuses a Hello, as REFUSED or FENCED."""

    verdict: Verdict
    reason: str


MAGIC: Final = b"HGHS"
VERSION: Final = 2  # of what is said on a connection, the handshake itself and the messages after it
NONCE_SIZE: Final = 32
PROOF_SIZE: Final = 32
TEXT_SIZE_MAX: Final = 4096
SECRET_SIZE_MIN: Final = 16
_HEAD: Final = struct.Struct("!4sB3x")
_LENGTH: Final = struct.Struct("!H")
_OPENING_SIZE: Final = _HEAD.size + PROOF_SIZE + NONCE_SIZE
_CHALLENGE_SIZE: Final = _HEAD.size + NONCE_SIZE + PROOF_SIZE
_RESPONSE_SIZE: Final = PROOF_SIZE + _LENGTH.size
_VERDICT_SIZE: Final = PROOF_SIZE + 1 + _LENGTH.size
MESSAGE_SIZE_MAX: Final = _VERDICT_SIZE + TEXT_SIZE_MAX
"""Longest message in bytes; more is never held of a peer before it is authenticated."""

_hello_encoder: Final = msgspec.msgpack.Encoder()
_hello_decoder: Final = msgpack_decoder(Hello)


def judge_hello(own: Hello, peer: Hello, compare_attempt: bool = True) -> Refusal | None:
    """Return a refusal (FENCED: `peer` is older), or None: same job, generation and (if compared) attempt.

    Example:
        >>> own = Hello("job", 2, 5, 0, 1, "data")
        >>> judge_hello(own, Hello("job", 2, 4, 1, 1, "data")).verdict.name
        'FENCED'
    """
    if own.job != peer.job:
        reason = f"the peer belongs to job {peer.job!r}, expected {own.job!r}"
        return Refusal(Verdict.REFUSED, f"{reason}: it has the address of another job")
    mine = (own.generation, own.attempt if compare_attempt else 0)
    theirs = (peer.generation, peer.attempt if compare_attempt else 0)
    if mine == theirs:
        return None
    there = f"slot {peer.slot} speaks for generation {peer.generation}, attempt {peer.attempt}"
    here = f"here is generation {own.generation}, attempt {own.attempt}"
    if theirs < mine:
        return Refusal(Verdict.FENCED, f"{there}, {here}: it was replaced and must stop")
    return Refusal(Verdict.REFUSED, f"{there}, {here}: this side is behind and must stop or catch up")


def _encode_text(text: bytes) -> bytes:
    if len(text) > TEXT_SIZE_MAX:
        raise InternalError(f"a handshake text has {len(text)} bytes, the limit is {TEXT_SIZE_MAX}")
    return _LENGTH.pack(len(text)) + text


def _check_head(data: bytes) -> None:
    magic, version = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise ProtocolError(
            f"a handshake begins with {magic!r}, expected {MAGIC!r}: the peer is no Headgate process"
        )
    if version != VERSION:
        raise ProtocolError(
            f"a handshake has version {version}, expected {VERSION}:"
            " run the same Headgate version on driver and workers"
        )


class _Step(Enum):
    START = "start"
    FIRST_MESSAGE = "first message"
    PROOF = "proof"
    TEXT = "text"
    JUDGING = "judging"
    DONE = "done"


class _Handshake(ABC):
    """One side of the handshake; it takes exactly as many bytes as the next step needs, never one more."""

    _side: str
    _other_side: str

    def __init__(self, secret: bytes, purpose: str, nonce: bytes) -> None:
        if len(secret) < SECRET_SIZE_MIN:
            raise InternalError(
                f"a job's secret has {len(secret)} bytes, expected at least {SECRET_SIZE_MIN}"
            )
        self._secret, self._purpose_name, self._nonce = secret, purpose, nonce
        self._purpose = sha256_of(purpose.encode()).digest()
        self._nonces = self._held = self._proof = b""
        self._step, self.needs = _Step.START, 0  # how many more bytes the next step needs
        self.peer: Hello | None = None  # the peer's Hello, once it is authenticated; not decoded before

    @property
    def done(self) -> bool:
        return self._step is _Step.DONE

    def receive(self, data: bytes) -> bytes:
        """Process at most `needs` bytes from the peer, and return the bytes to send back.

        Raises ProtocolError: the peer is not of this job, came for another purpose, sent garbage or refused;
        FencedError: this side was replaced, as the peer says; InternalError: more bytes than `needs`.
        """
        if len(data) > self.needs:
            raise InternalError(f"the handshake was given {len(data)} bytes where it needs {self.needs}")
        self._held += data
        self.needs -= len(data)
        if self.needs:
            return b""
        message, self._held = self._held, b""
        if self._step is _Step.FIRST_MESSAGE:
            return self._on_first(message)
        if self._step is _Step.PROOF:
            self._proof = message
            (size,) = _LENGTH.unpack(message[-_LENGTH.size :])
            if size > TEXT_SIZE_MAX:
                raise ProtocolError(
                    f"a handshake announces {size} bytes, the limit is {TEXT_SIZE_MAX}: the peer is damaged"
                )
            self._step, self.needs = _Step.TEXT, size
            return b"" if size else self._on_text(b"")
        if self._step is _Step.TEXT:
            return self._on_text(message)
        raise InternalError(f"the {self._side} side of a handshake received bytes in step {self._step.value}")

    @abstractmethod
    def _on_first(self, message: bytes) -> bytes: ...

    @abstractmethod
    def _on_text(self, text: bytes) -> bytes: ...

    def _prove(self, role: bytes, text: bytes = b"") -> bytes:
        # Every field but the last has a fixed length, so no two inputs run together to the same bytes.
        covered = b"headgate-v1/" + role + self._purpose + self._nonces + text
        return hmac.digest(self._secret, covered, "sha256")

    def _verify(self, proof: bytes, role: bytes, text: bytes = b"") -> None:
        if not hmac.compare_digest(self._prove(role, text), proof):
            raise ProtocolError(
                f"the {self._other_side} side did not prove the job's secret: it belongs to another job or"
                " is hostile"
            )

    def _verify_text(self, role: bytes, text: bytes) -> None:
        self._verify(self._proof[:PROOF_SIZE], role, self._proof[PROOF_SIZE:] + text)

    def _decode_hello(self, text: bytes) -> Hello:
        try:
            hello = _hello_decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ProtocolError(f"an authenticated peer's Hello does not decode: {error}") from error
        if hello.purpose != self._purpose_name:
            raise ProtocolError(
                f"an authenticated peer came for {hello.purpose!r}, expected {self._purpose_name!r}"
            )
        return hello


class ClientHandshake(_Handshake):
    """The connecting side: send :meth:`start`, then give :meth:`receive` at most `needs` bytes until `done`.

    Example:
        >>> secret = b"0123456789abcdef"
        >>> client = ClientHandshake(secret, Hello("j", 1, 1, 0, 0, "data"), bytes(32))
        >>> server = ServerHandshake(secret, "data", bytes(32))
        >>> challenge = server.receive(client.start())
        >>> hello_needed = server.receive(client.receive(challenge)[:34])
        >>> client.done, server.done
        (False, False)
    """

    _side, _other_side = "connecting", "listening"

    def __init__(self, secret: bytes, hello: Hello, nonce: bytes) -> None:
        super().__init__(secret, hello.purpose, nonce)
        self._hello = hello

    def start(self) -> bytes:
        self._step, self.needs = _Step.FIRST_MESSAGE, _CHALLENGE_SIZE
        return _HEAD.pack(MAGIC, VERSION) + self._purpose + self._nonce

    def _on_first(self, message: bytes) -> bytes:
        _check_head(message)
        self._nonces = self._nonce + message[_HEAD.size : _HEAD.size + NONCE_SIZE]
        self._verify(message[-PROOF_SIZE:], b"server..")
        text = _encode_text(_hello_encoder.encode(self._hello))
        self._step, self.needs = _Step.PROOF, _VERDICT_SIZE
        return self._prove(b"client..", text) + text

    def _on_text(self, text: bytes) -> bytes:
        self._verify_text(b"verdict.", text)
        verdict, reason = self._proof[PROOF_SIZE], text.decode("utf-8", "replace")
        if verdict == Verdict.FENCED:
            raise FencedError(reason)
        if verdict != Verdict.WELCOME:
            raise ProtocolError(f"the peer refused the connection: {reason}")
        self.peer = self._decode_hello(text)
        self._step = _Step.DONE
        return b""


class ServerHandshake(_Handshake):
    """The listening side: give :meth:`receive` at most `needs` bytes at a time until `peer` is known.

    Then the caller decides: :meth:`welcome` or :meth:`refuse` returns the last bytes to send.
    """

    _side, _other_side = "listening", "connecting"

    def __init__(self, secret: bytes, purpose: str, nonce: bytes) -> None:
        super().__init__(secret, purpose, nonce)
        self._step, self.needs = _Step.FIRST_MESSAGE, _OPENING_SIZE

    def _on_first(self, message: bytes) -> bytes:
        _check_head(message)
        if message[_HEAD.size : _HEAD.size + PROOF_SIZE] != self._purpose:
            raise ProtocolError(f"a peer came to the {self._purpose_name} port for another purpose")
        self._nonces = message[-NONCE_SIZE:] + self._nonce
        self._step, self.needs = _Step.PROOF, _RESPONSE_SIZE
        return _HEAD.pack(MAGIC, VERSION) + self._nonce + self._prove(b"server..")

    def _on_text(self, text: bytes) -> bytes:
        self._verify_text(b"client..", text)
        self.peer = self._decode_hello(text)
        self._step = _Step.JUDGING
        return b""

    def welcome(self, hello: Hello) -> bytes:
        """Return the last message to send, which accepts the peer; `hello` is this side's identity.
        InternalError: the peer is not known yet, or the verdict was given.
        """
        return self._verdict(Verdict.WELCOME, _hello_encoder.encode(hello))

    def refuse(self, refusal: Refusal) -> bytes:
        """Return the last message, which tells the peer why it is refused. InternalError: called twice."""
        return self._verdict(refusal.verdict, refusal.reason.encode("utf-8", "replace")[:TEXT_SIZE_MAX])

    def _verdict(self, verdict: Verdict, text: bytes) -> bytes:
        if self._step is not _Step.JUDGING:
            raise InternalError(f"a handshake's verdict was given in step {self._step.value}")
        self._step = _Step.DONE
        covered = bytes([verdict]) + _encode_text(text)
        return self._prove(b"verdict.", covered) + covered


def greet(sock: socket.socket, secret: bytes, hello: Hello, nonce: bytes, timeout_ms: int) -> Hello:
    """Run the connecting side of the handshake on a connected socket, and return the peer's Hello.
    `nonce` are `NONCE_SIZE` bytes that were never used before. The timeout is for the complete handshake,
    however slowly the peer sends. The socket stays blocking; the caller closes it, also on failure. Raises
    ProtocolError: the peer is not of this job or refused; FencedError: this side was replaced, as the peer
    says; OSError: the connection broke or the timeout passed (TimeoutError).
    """
    deadline = clock.monotonic() + timeout_ms / 1000
    client = ClientHandshake(secret, hello, nonce)
    answer = client.start()
    while True:
        remaining_s = deadline - clock.monotonic()
        if remaining_s <= 0:
            raise TimeoutError(f"the handshake took longer than {timeout_ms} ms")
        sock.settimeout(remaining_s)
        if answer:
            sock.sendall(answer)
        if client.done:
            break
        data = sock.recv(client.needs)
        if not data:
            raise ConnectionResetError("the peer closed the connection during the handshake")
        answer = client.receive(data)
    sock.settimeout(None)
    if client.peer is None:
        raise OperatingError("a handshake ended without the peer's Hello")
    return client.peer
