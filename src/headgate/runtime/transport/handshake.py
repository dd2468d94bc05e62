"""The handshake before any frame: both sides prove the job's secret, then say who they are.

Four messages, all of known or bounded length; C connects, S listens::

    C -> S   magic, version, purpose digest, nonce of C
    S -> C   magic, version, nonce of S, proof of S
    C -> S   proof of C, length and text of C's Hello        (the proof covers the Hello)
    S -> C   proof of the verdict, verdict, length and text of S's Hello or of the refusal

A proof is HMAC-SHA256 with the job's secret over the role, the purpose, both nonces and the text, so
it cannot be replayed, reflected, or carried to a port of another purpose. Nothing of an unproven
peer is decoded, and at most `MESSAGE_SIZE_MAX` bytes of it are held. The two classes are pure: bytes
in, bytes out; :func:`greet` runs the connecting side on a blocking socket, and `acceptor.py` runs
the listening side. What follows on the connection is not encrypted: that takes TLS below.
"""

from __future__ import annotations

import hmac
import socket
import struct
from enum import Enum, IntEnum
from typing import Annotated, Final, NamedTuple

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import FencedError, InternalError, OperatingError, ProtocolError
from headgate.common.files.durable import clock
from headgate.common.files.durable import sha256 as sha256_of

_Number = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who speaks, since when, and what for."""

    job: str  # id of the job
    generation: _Number  # of the job master
    attempt: _Number  # the deployment; 0 on control links, which outlive attempts
    slot: _Number  # the speaker's slot; 0 for the job master
    gang: _Number  # which gang of workers the speaker is in; 0 for the job master
    purpose: str  # `"data"` or `"control"`; both sides must mean the same


class Verdict(IntEnum):
    """The listening side's answer to an authenticated Hello."""

    WELCOME = 0
    REFUSED = 1
    """Not now or not here; the text says why."""
    FENCED = 2
    """The connecting side was replaced by a newer one and must stop."""


class Refusal(NamedTuple):
    """Why a Hello is turned away."""

    verdict: Verdict
    reason: str


MAGIC: Final = b"HGHS"
VERSION: Final = 1
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
"""Bytes of the longest message; all that is ever held of a peer before it is authenticated."""

_hello_encoder: Final = msgspec.msgpack.Encoder()
_hello_decoder: Final = msgpack_decoder(Hello)


def judge_hello(own: Hello, peer: Hello, compare_attempt: bool = True) -> Refusal | None:
    """Whether `own` may talk to `peer`: same job, generation and (if compared) attempt; None if so.

    Example:
        >>> own = Hello("job", 2, 5, 0, 1, "data")
        >>> judge_hello(own, Hello("job", 2, 4, 1, 1, "data")).verdict.name
        'FENCED'
    """
    if own.job != peer.job:
        reason = (
            f"the peer belongs to job {peer.job!r}, expected {own.job!r}: it has the address of another job"
        )
        return Refusal(Verdict.REFUSED, reason)
    mine = (own.generation, own.attempt if compare_attempt else 0)
    theirs = (peer.generation, peer.attempt if compare_attempt else 0)
    if mine == theirs:
        return None
    said = f"slot {peer.slot} speaks for generation {peer.generation}, attempt {peer.attempt}"
    here = f"here is generation {own.generation}, attempt {own.attempt}"
    if theirs < mine:
        return Refusal(Verdict.FENCED, f"{said}, {here}: it was replaced and must stop")
    return Refusal(Verdict.REFUSED, f"{said}, {here}: this side is behind and must stop or catch up")


def _proof(secret: bytes, role: bytes, purpose: bytes, nonces: bytes, text: bytes) -> bytes:
    # Every field but the last has a fixed length, so no two inputs run together to the same bytes.
    return hmac.digest(secret, b"headgate-v1/" + role + purpose + nonces + text, "sha256")


def _check_secret(secret: bytes) -> None:
    if len(secret) < SECRET_SIZE_MIN:
        raise InternalError(f"a job's secret has {len(secret)} bytes, expected at least {SECRET_SIZE_MIN}")


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


def _encode_text(text: bytes) -> bytes:
    if len(text) > TEXT_SIZE_MAX:
        raise InternalError(f"a handshake text has {len(text)} bytes, the limit is {TEXT_SIZE_MAX}")
    return _LENGTH.pack(len(text)) + text


def _text_size(length: bytes) -> int:
    (size,) = _LENGTH.unpack(length)
    if size > TEXT_SIZE_MAX:
        raise ProtocolError(
            f"a handshake announces {size} bytes, the limit is {TEXT_SIZE_MAX}: the peer is damaged"
        )
    return int(size)


def _decode_hello(text: bytes, purpose: str) -> Hello:
    try:
        hello = _hello_decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"an authenticated peer's Hello does not decode: {error}") from error
    if hello.purpose != purpose:
        raise ProtocolError(f"an authenticated peer came for {hello.purpose!r}, expected {purpose!r}")
    return hello


def _unproven(who: str) -> ProtocolError:
    return ProtocolError(
        f"the {who} side did not prove the job's secret: it belongs to another job or is hostile"
    )


class _Step(Enum):
    START = "start"
    OPENING = "opening"
    CHALLENGE = "challenge"
    RESPONSE = "response"
    RESPONSE_TEXT = "response-text"
    JUDGING = "judging"
    VERDICT = "verdict"
    VERDICT_TEXT = "verdict-text"
    DONE = "done"


class _Collector:
    """Gathers exactly as many bytes as the next step needs, and never one more."""

    def __init__(self) -> None:
        self.needs = 0
        self._held = b""

    def take(self, data: bytes) -> bytes | None:
        """The step's bytes once they are complete."""
        if len(data) > self.needs:
            raise InternalError(f"the handshake was given {len(data)} bytes where it needs {self.needs}")
        self._held += data
        self.needs -= len(data)
        if self.needs:
            return None
        message, self._held = self._held, b""
        return message


class ClientHandshake:
    """The connecting side. Send :meth:`start`; then give :meth:`receive` at most `needs` bytes at a time.

    Example:
        >>> secret = b"0123456789abcdef"
        >>> client = ClientHandshake(secret, Hello("j", 1, 1, 0, 0, "data"), bytes(32))
        >>> server = ServerHandshake(secret, "data", bytes(32))
        >>> challenge = server.receive(client.start())
        >>> hello_needed = server.receive(client.receive(challenge)[:34])
        >>> client.done, server.done
        (False, False)
    """

    def __init__(self, secret: bytes, hello: Hello, nonce: bytes) -> None:
        _check_secret(secret)
        self._secret, self._hello, self._nonce = secret, hello, nonce
        self._purpose = sha256_of(hello.purpose.encode()).digest()
        self._nonces = b""
        self._step = _Step.START
        self._in = _Collector()
        self._head = b""
        self.peer: Hello | None = None  # the other side's Hello, once `done`

    @property
    def needs(self) -> int:
        """How many more bytes the next step takes; 0 when done."""
        return self._in.needs

    @property
    def done(self) -> bool:
        """Whether both sides are proven and welcome."""
        return self._step is _Step.DONE

    def start(self) -> bytes:
        """The opening message."""
        self._step, self._in.needs = _Step.CHALLENGE, _CHALLENGE_SIZE
        return _HEAD.pack(MAGIC, VERSION) + self._purpose + self._nonce

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the peer; gives what to send back.

        Raises ProtocolError: the peer is not of this job, or refused; FencedError: the peer says that this
        side was replaced.
        """
        message = self._in.take(data)
        if message is None:
            return b""
        if self._step is _Step.CHALLENGE:
            return self._on_challenge(message)
        if self._step is _Step.VERDICT:
            self._head = message
            size = _text_size(message[-_LENGTH.size :])
            self._step, self._in.needs = _Step.VERDICT_TEXT, size
            return self._on_verdict(b"") if size == 0 else b""
        if self._step is _Step.VERDICT_TEXT:
            return self._on_verdict(message)
        raise InternalError(f"the connecting side of a handshake received bytes in step {self._step.value}")

    def _on_challenge(self, message: bytes) -> bytes:
        _check_head(message)
        server_nonce = message[_HEAD.size : _HEAD.size + NONCE_SIZE]
        self._nonces = self._nonce + server_nonce
        expected = _proof(self._secret, b"server..", self._purpose, self._nonces, b"")
        if not hmac.compare_digest(expected, message[-PROOF_SIZE:]):
            raise _unproven("listening")
        text = _encode_text(_hello_encoder.encode(self._hello))
        self._step, self._in.needs = _Step.VERDICT, _VERDICT_SIZE
        return _proof(self._secret, b"client..", self._purpose, self._nonces, text) + text

    def _on_verdict(self, text: bytes) -> bytes:
        expected = _proof(
            self._secret, b"verdict.", self._purpose, self._nonces, self._head[PROOF_SIZE:] + text
        )
        if not hmac.compare_digest(expected, self._head[:PROOF_SIZE]):
            raise _unproven("listening")
        verdict = self._head[PROOF_SIZE]
        if verdict == Verdict.WELCOME:
            self.peer = _decode_hello(text, self._hello.purpose)
            self._step = _Step.DONE
            return b""
        reason = text.decode("utf-8", "replace")
        if verdict == Verdict.FENCED:
            raise FencedError(reason)
        raise ProtocolError(f"the peer refused the connection: {reason}")


class ServerHandshake:
    """The listening side. Give :meth:`receive` at most `needs` bytes at a time until `peer` is known.

    Then the caller decides: :meth:`welcome` or :meth:`refuse` give the last bytes to send.
    """

    def __init__(self, secret: bytes, purpose: str, nonce: bytes) -> None:
        _check_secret(secret)
        self._secret, self._nonce, self._purpose_name = secret, nonce, purpose
        self._purpose = sha256_of(purpose.encode()).digest()
        self._nonces = b""
        self._step = _Step.OPENING
        self._in = _Collector()
        self._in.needs = _OPENING_SIZE
        self._head = b""
        self.peer: Hello | None = None  # the authenticated Hello, from then on; nothing is decoded before

    @property
    def needs(self) -> int:
        """How many more bytes the next step takes; 0 when the peer is known."""
        return self._in.needs

    @property
    def done(self) -> bool:
        """Whether the verdict was given."""
        return self._step is _Step.DONE

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the peer; gives what to send back.

        Raises ProtocolError: the peer is not of this job, came for another purpose, or speaks garbage.
        """
        message = self._in.take(data)
        if message is None:
            return b""
        if self._step is _Step.OPENING:
            return self._on_opening(message)
        if self._step is _Step.RESPONSE:
            self._head = message
            size = _text_size(message[PROOF_SIZE:])
            self._step, self._in.needs = _Step.RESPONSE_TEXT, size
            if size == 0:
                raise _unproven("connecting")
            return b""
        if self._step is _Step.RESPONSE_TEXT:
            self._on_response(message)
            return b""
        raise InternalError(f"the listening side of a handshake received bytes in step {self._step.value}")

    def _on_opening(self, message: bytes) -> bytes:
        _check_head(message)
        if message[_HEAD.size : _HEAD.size + PROOF_SIZE] != self._purpose:
            raise ProtocolError(f"a peer came to the {self._purpose_name} port for another purpose")
        self._nonces = message[-NONCE_SIZE:] + self._nonce
        self._step, self._in.needs = _Step.RESPONSE, _RESPONSE_SIZE
        proof = _proof(self._secret, b"server..", self._purpose, self._nonces, b"")
        return _HEAD.pack(MAGIC, VERSION) + self._nonce + proof

    def _on_response(self, text: bytes) -> None:
        covered = self._head[PROOF_SIZE:] + text
        expected = _proof(self._secret, b"client..", self._purpose, self._nonces, covered)
        if not hmac.compare_digest(expected, self._head[:PROOF_SIZE]):
            raise _unproven("connecting")
        self.peer = _decode_hello(text, self._purpose_name)
        self._step = _Step.JUDGING

    def welcome(self, hello: Hello) -> bytes:
        """The last message when the peer may stay; `hello` tells it who is here."""
        return self._verdict(Verdict.WELCOME, _hello_encoder.encode(hello))

    def refuse(self, refusal: Refusal) -> bytes:
        """The last message when the peer must go."""
        return self._verdict(refusal.verdict, refusal.reason.encode("utf-8", "replace")[:TEXT_SIZE_MAX])

    def _verdict(self, verdict: Verdict, text: bytes) -> bytes:
        if self._step is not _Step.JUDGING:
            raise InternalError(f"a handshake's verdict was given in step {self._step.value}")
        self._step = _Step.DONE
        covered = bytes([verdict]) + _encode_text(text)
        return _proof(self._secret, b"verdict.", self._purpose, self._nonces, covered) + covered


def greet(sock: socket.socket, secret: bytes, hello: Hello, nonce: bytes, timeout_ms: int) -> Hello:
    """Run the connecting side on a socket and give the other side's Hello; leaves the socket blocking.

    Args:
        sock: a connected socket; closed by the caller also on failure.
        secret: the job's secret.
        hello: who this side is.
        nonce: `NONCE_SIZE` bytes never used before.
        timeout_ms: for the handshake as a whole, however slowly the peer trickles.

    Raises ProtocolError: the peer is not of this job or refused; FencedError: the peer says that this side
    was replaced; OSError: the connection broke or the time is over (TimeoutError).
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
