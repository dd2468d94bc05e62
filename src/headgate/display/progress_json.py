"""A display for machines: one JSON object per event and line, on the standard output.

`docs/cli-output.md` describes the lines. Fields may be added to them; none is renamed or removed.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from headgate.display.event_texts import Facts

_STDOUT: Final = 1
_STDERR: Final = 2

_LOG: Final = logging.getLogger("headgate.job")


class LineWriter:
    """A display that writes each event as a line of JSON to `stream`, flushed at once.
    `last_event`: name of the last event. Once the reader has closed the stream, further lines are dropped.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._dropped = stream, False
        self.last_event: str | None = None

    def show(self, event: str, facts: Facts) -> None:
        self.last_event = event
        if self._dropped:
            return
        try:
            self._stream.write(json.dumps({"event": event, **facts}) + "\n")
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._dropped = True
            _LOG.warning("nobody reads the JSON lines any more (%s); the job goes on without them", error)


_reserved: LineWriter | None = None


def line_writer() -> LineWriter:
    """Return the writer that :func:`reserve_stdout` has yielded, or else a new one to the present stdout."""
    return _reserved or LineWriter(sys.stdout)


@contextmanager
def reserve_stdout() -> Iterator[LineWriter]:
    """Keep the standard output for the yielded writer of JSON lines while the `with` block runs.

    What other code prints to standard output goes to standard error. Where the two are descriptors 1 and 2,
    descriptor 1 is redirected, too, so that processes started meanwhile do not write between the lines.
    """
    global _reserved
    stdout, before = sys.stdout, _reserved
    with _own_stream(stdout, _are_standard_files(stdout, sys.stderr)) as stream:
        _reserved = LineWriter(stream)
        sys.stdout = sys.stderr
        try:
            yield _reserved
        finally:
            sys.stdout, _reserved = stdout, before


def _are_standard_files(stdout: TextIO, stderr: TextIO) -> bool:
    try:
        return (stdout.fileno(), stderr.fileno()) == (_STDOUT, _STDERR)
    except (OSError, ValueError, AttributeError):  # replaced by something that is no file
        return False


@contextmanager
def _own_stream(stdout: TextIO, exchange: bool) -> Iterator[TextIO]:
    if not exchange:
        yield stdout
        return
    stdout.flush()
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    stream = os.fdopen(os.dup(kept), "w", encoding="utf-8")
    try:
        yield stream
    finally:
        with suppress(OSError):  # what was still buffered for a reader that has exited
            stream.close()
        with suppress(OSError):
            stdout.flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)
