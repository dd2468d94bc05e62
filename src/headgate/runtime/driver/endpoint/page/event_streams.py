"""Sends the status of a job to its open pages as server-sent events, one a second.

All streams share one snapshot. A page that reads slowly gets the newest one when it comes to read again, and
one that does not read for 20 seconds loses its stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from headgate.common.errors import HeadgateError
from headgate.runtime.driver.endpoint.page.job_watch import JobWatch

EVERY_S: Final = 1.0
LEAST_S: Final = 0.2  # between two events, also where there is news: a job may fail many times a second
STREAMS_MAX: Final = 16
"""More pages are told to ask every few seconds instead, so that connections are left for commands."""

SEND_WAIT_S: Final = 20.0  # how long a reader may take to make room for the next event

_LOG: Final = logging.getLogger("headgate.endpoint")


class EventStreams:
    """The open streams of one job's endpoint; used in its event loop only. `make` returns the newest snapshot
    as JSON, or raises a HeadgateError where the job master does not answer; it is called in a thread.
    """

    def __init__(self, watch: JobWatch, make: Callable[[], bytes]) -> None:
        self._watch, self._make = watch, make
        self._number, self._newest, self._last = 0, b"", False
        self._made = asyncio.Condition()
        self._due: asyncio.Event = asyncio.Event()
        self._making: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        return self._watch.streams >= STREAMS_MAX

    async def serve(self, receive: Receive, send: Send) -> None:
        """Send events to one page until it leaves, the job ends, or it does not read for too long."""
        self._watch.streams += 1
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            if self._making is None or self._making.done():
                self._making = asyncio.ensure_future(self._make_all())
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._watch.streams -= 1
            for task in (sending, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError, TimeoutError, OSError):
                    await task

    async def _send_all(self, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"), (b"connection", b"close"),
        ]  # fmt: skip
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        sent, last = 0, False
        while not last:
            async with self._made:
                await self._made.wait_for(lambda: self._number > sent)  # noqa: B023 - called here only
                sent, body, last = self._number, self._newest, self._last
            async with asyncio.timeout(SEND_WAIT_S):
                await send({"type": "http.response.body", "body": body, "more_body": not last})

    async def _make_all(self) -> None:
        loop = asyncio.get_running_loop()
        self._watch.wake = lambda: _call(loop, self._due.set)
        try:
            while self._watch.streams > 0 and not self._last:
                self._due.clear()
                ended = self._watch.state is not None
                event, body = await run_in_threadpool(self._event)
                async with self._made:
                    self._number, self._last = self._number + 1, ended
                    self._newest = b"id: %d\nevent: %s\ndata: %s\n\n" % (self._number, event, body)
                    self._made.notify_all()
                await asyncio.sleep(LEAST_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVERY_S - LEAST_S):
                        await self._due.wait()
        finally:
            self._watch.wake = None

    def _event(self) -> tuple[bytes, bytes]:
        try:
            return b"status", self._make()
        except HeadgateError as error:
            return b"silence", msgspec.json.encode({"message": str(error)})
        except Exception as error:  # the streams go on: the next snapshot may be all right again
            _LOG.warning("the page of the job could not be made", exc_info=True)
            return b"silence", msgspec.json.encode({"message": f"{type(error).__name__} in the driver"})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(callback)


class EventResponse:
    """An ASGI application that answers one request by a stream of events."""

    def __init__(self, streams: EventStreams) -> None:
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._streams.serve(receive, send)
