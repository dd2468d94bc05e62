"""A worker's end of the control link: dial the job master and hand its messages on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.common.errors import ProtocolError
from headgate.runtime.protocol.wire import decode_to_worker
from headgate.runtime.transport.connection import DIAL_TIMEOUT_MS, dial
from headgate.runtime.transport.control_link import LinkEvents, SocketLink
from headgate.runtime.transport.handshake import Hello, judge_hello


def connect_control(
    address: str,  # of the `ControlServer`
    secret: bytes,  # the job's secret
    hello: Hello,  # this worker, with purpose `"control"`
    on_message: Callable[[Any], None],  # for everything the job master says
    on_lost: Callable[[str], None],  # with the reason when the link broke; not when it was closed here
    timeout_ms: int = DIAL_TIMEOUT_MS,  # for connecting and the handshake together
) -> SocketLink:
    """Connect to the job master.

    Both callbacks run on the link's receiving thread, possibly before this function returns; they must
    not block for long. A callback that raises ends the link.

    Raises ProtocolError: the listener is not the job master of this job, or refused; FencedError: this
    worker's generation was replaced; OperatingError: nobody could be reached at the address.
    """
    connection, master = dial(address, secret, hello, timeout_ms)
    # The other half of a pair: the server refuses a stranger, and so does the worker.
    refusal = judge_hello(hello, master, compare_attempt=False)
    if refusal is not None:
        connection.close()
        raise ProtocolError(f"the job master at {address} is not the one expected: {refusal.reason}")
    events = LinkEvents(decode_to_worker, _nothing, on_message, on_lost, _nothing)
    link = SocketLink(connection, hello.generation, f"{hello.gang}-{hello.slot}-master", events)
    link.start()
    return link


def _nothing(*_: object) -> None:
    """Nobody needs to hear this."""
