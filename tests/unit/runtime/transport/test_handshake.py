"""The handshake: only who knows the secret gets in, and nobody learns or costs anything before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import FencedError, HeadgateError, InternalError, ProtocolError
from headgate.runtime.transport.handshake import (
    MESSAGE_SIZE_MAX,
    TEXT_SIZE_MAX,
    ClientHandshake,
    Hello,
    Refusal,
    ServerHandshake,
    Verdict,
    judge_hello,
)

SECRET = bytes(range(32))
CLIENT = Hello("job-1", 2, 5, 1, 4, "data")
SERVER = Hello("job-1", 2, 5, 0, 4, "data")


def take(receiver: ClientHandshake | ServerHandshake, data: bytes, step: int = 10_000) -> bytes:
    """Give `data` in pieces of at most `step` bytes and never more than needed; what comes back."""
    answer = b""
    while data:
        size = min(step, receiver.needs)
        assert size > 0, "bytes are left over that nobody needs"
        answer += receiver.receive(data[:size])
        data = data[size:]
    return answer


def until_judgement(
    client_secret: bytes = SECRET, server_secret: bytes = SECRET, step: int = 10_000, purpose: str = "data"
) -> tuple[ClientHandshake, ServerHandshake]:
    """Both sides up to the point where the server knows its peer."""
    client = ClientHandshake(client_secret, CLIENT, b"c" * 32)
    server = ServerHandshake(server_secret, purpose, b"s" * 32)
    challenge = take(server, client.start(), step)
    take(server, take(client, challenge, step), step)
    return client, server


@pytest.mark.parametrize("step", [1, 2, 7, 10_000])
def test_both_sides_learn_who_is_there(step: int) -> None:
    """With the same secret each side gets the other's Hello, however the bytes are cut."""
    client, server = until_judgement(step=step)
    assert server.peer == CLIENT
    assert not server.done
    take(client, server.welcome(SERVER), step)
    assert client.peer == SERVER
    assert client.done
    assert server.done
    assert client.needs == server.needs == 0


def test_the_client_sends_no_hello_to_a_stranger() -> None:
    """A listener without the secret is found out before the client says who it is."""
    with pytest.raises(ProtocolError, match="listening side did not prove"):
        until_judgement(server_secret=b"x" * 32)


def test_the_server_decodes_nothing_of_a_stranger() -> None:
    """A peer that echoes, replays or guesses a proof is refused, and its Hello stays unread."""
    recorded: list[bytes] = []
    for nonce in (b"s" * 32, b"t" * 32):
        client = ClientHandshake(SECRET, CLIENT, b"c" * 32)
        server = ServerHandshake(SECRET, "data", nonce)
        answer = take(client, take(server, client.start()))
        recorded.append(answer)
        if nonce == b"t" * 32:
            with pytest.raises(ProtocolError, match="connecting side did not prove"):
                take(server, recorded[0])
            assert server.peer is None


def test_a_proof_cannot_be_reflected() -> None:
    """The listener's own proof is no proof of the connecting side."""
    client = ClientHandshake(SECRET, CLIENT, b"c" * 32)
    server = ServerHandshake(SECRET, "data", b"s" * 32)
    challenge = take(server, client.start())
    length = take(client, challenge)[32:]
    with pytest.raises(ProtocolError, match="did not prove"):
        take(server, challenge[-32:] + length)


def test_a_control_connection_cannot_be_carried_to_the_data_port() -> None:
    """Purposes do not mix, even between honest processes of one job."""
    with pytest.raises(ProtocolError, match="another purpose"):
        until_judgement(purpose="control")


@pytest.mark.parametrize("message", range(4))
def test_every_flipped_bit_is_refused(message: int) -> None:
    """One wrong bit in any of the four messages keeps the two apart."""

    def run(damage: tuple[int, int] | None) -> int:
        """Run a handshake with one bit flipped; the size of the message in question."""
        sizes = []

        def wire(index: int, data: bytes) -> bytes:
            sizes.append(len(data))
            if damage is None or index != message:
                return data
            damaged = bytearray(data)
            damaged[damage[0]] ^= damage[1]
            return bytes(damaged)

        client = ClientHandshake(SECRET, CLIENT, b"c" * 32)
        server = ServerHandshake(SECRET, "data", b"s" * 32)
        challenge = take(server, wire(0, client.start()))
        response = take(client, wire(1, challenge))
        take(server, wire(2, response))
        take(client, wire(3, server.welcome(SERVER)))
        if not client.done:
            raise ProtocolError("incomplete")
        return sizes[message]

    size = run(None)
    # The three filler bytes behind the version carry nothing and are not looked at.
    filler = {5, 6, 7} if message < 2 else set()
    for position in set(range(size)) - filler:
        # A damaged length may leave bytes over, which `take` reports as an assertion.
        with pytest.raises((HeadgateError, AssertionError)):
            run((position, 1 << position % 8))


@given(st.binary(max_size=2 * MESSAGE_SIZE_MAX))
def test_garbage_is_refused_within_the_bound(garbage: bytes) -> None:
    """A listener never asks for more than one message, and garbage never becomes a peer."""
    server = ServerHandshake(SECRET, "data", b"s" * 32)
    with pytest.raises((ProtocolError, StopIteration)):
        while True:
            assert 0 < server.needs <= MESSAGE_SIZE_MAX <= 64 * 1024
            if len(garbage) < server.needs:
                raise StopIteration
            size = server.needs
            server.receive(garbage[:size])
            garbage = garbage[size:]
    assert server.peer is None


def test_a_length_beyond_the_limit_is_refused_before_its_bytes() -> None:
    """A response that announces more than 4 KiB is refused at its length field."""
    client = ClientHandshake(SECRET, CLIENT, b"c" * 32)
    server = ServerHandshake(SECRET, "data", b"s" * 32)
    take(server, client.start())
    with pytest.raises(ProtocolError, match=f"announces {TEXT_SIZE_MAX + 1} bytes"):
        take(server, bytes(32) + (TEXT_SIZE_MAX + 1).to_bytes(2, "big"))


def test_a_refused_client_gets_the_reason() -> None:
    """A refusal arrives as text, authenticated like a welcome."""
    client, server = until_judgement()
    with pytest.raises(ProtocolError, match="refused the connection: full"):
        take(client, server.refuse(Refusal(Verdict.REFUSED, "full")))
    assert not client.done


def test_an_outdated_client_is_fenced() -> None:
    """The side that is behind gets a FencedError and so knows that it must stop."""
    client, server = until_judgement()
    refusal = judge_hello(Hello("job-1", 2, 6, 0, 4, "data"), CLIENT)
    assert refusal is not None
    with pytest.raises(FencedError, match="attempt 5, here is generation 2, attempt 6: it was replaced"):
        take(client, server.refuse(refusal))


@pytest.mark.parametrize(
    ("peer", "verdict"),
    [
        (Hello("job-1", 2, 5, 1, 4, "data"), None),
        (Hello("job-2", 2, 5, 1, 4, "data"), Verdict.REFUSED),
        (Hello("job-1", 1, 9, 1, 4, "data"), Verdict.FENCED),
        (Hello("job-1", 2, 4, 1, 4, "data"), Verdict.FENCED),
        (Hello("job-1", 2, 6, 1, 4, "data"), Verdict.REFUSED),
        (Hello("job-1", 3, 1, 1, 4, "data"), Verdict.REFUSED),
    ],
)
def test_judgement_by_job_generation_and_attempt(peer: Hello, verdict: Verdict | None) -> None:
    """Job, generation and attempt must be equal; an older speaker is fenced, a newer one refused."""
    refusal = judge_hello(SERVER, peer)
    assert (refusal and refusal.verdict) == verdict


def test_control_links_outlive_attempts() -> None:
    """Where attempts are not compared, only job and generation decide."""
    assert judge_hello(SERVER, Hello("job-1", 2, 1, 1, 4, "control"), compare_attempt=False) is None
    refusal = judge_hello(SERVER, Hello("job-1", 1, 5, 1, 4, "control"), compare_attempt=False)
    assert refusal is not None
    assert refusal.verdict is Verdict.FENCED


def test_a_hello_too_long_to_send_is_our_own_fault() -> None:
    """A Hello beyond 4 KiB is an internal error on the side that made it."""
    client = ClientHandshake(SECRET, Hello("j" * 5000, 1, 1, 0, 0, "data"), b"c" * 32)
    server = ServerHandshake(SECRET, "data", b"s" * 32)
    with pytest.raises(InternalError, match="the limit is 4096"):
        take(client, take(server, client.start()))


def test_an_authenticated_hello_with_unknown_fields_is_refused() -> None:
    """Also a peer with the secret cannot make this side decode something it does not know."""
    from headgate.runtime.transport import handshake

    class Stranger(Hello, frozen=True):
        extra: int = 1

    client = ClientHandshake(SECRET, Stranger("job-1", 2, 5, 1, 4, "data"), b"c" * 32)
    server = handshake.ServerHandshake(SECRET, "data", b"s" * 32)
    with pytest.raises(ProtocolError, match="does not decode"):
        take(server, take(client, take(server, client.start())))


def test_a_short_secret_is_our_own_fault() -> None:
    """A secret that could be guessed is never used."""
    with pytest.raises(InternalError, match="at least 16"):
        ServerHandshake(b"short", "data", b"s" * 32)


def test_no_verdict_before_the_proof() -> None:
    """Nobody is welcomed before the peer is known."""
    server = ServerHandshake(SECRET, "data", b"s" * 32)
    with pytest.raises(InternalError, match="verdict"):
        server.welcome(SERVER)


def test_more_bytes_than_needed_are_our_own_fault() -> None:
    """The driver must not take bytes that belong to the frames behind the handshake."""
    server = ServerHandshake(SECRET, "data", b"s" * 32)
    with pytest.raises(InternalError, match="where it needs"):
        server.receive(bytes(server.needs + 1))
