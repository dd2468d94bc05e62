"""What happened in a simulation: a hash over everything, and the story in words when somebody asks."""

from __future__ import annotations

import hashlib
from collections import deque


class Trace:
    """The order of events; equal seeds must give equal digests.

    Args:
        story_max: how many of the last lines are kept; None keeps all.

    Attributes:
        count: how many events there were.

    Example:
        >>> trace = Trace(story_max=1)
        >>> trace.add(0, "worker 0 turns"); trace.add(3, "worker 1 turns")
        >>> trace.story(), trace.count
        (['      3 worker 1 turns'], 2)
    """

    def __init__(self, story_max: int | None = 200) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._lines: deque[tuple[int, str]] = deque(maxlen=story_max)
        self.count = 0

    def add(self, now_ms: int, text: str) -> None:
        """One event at a virtual time."""
        self.count += 1
        self._hash.update(f"{now_ms} {text}\n".encode())
        self._lines.append((now_ms, text))

    @property
    def digest(self) -> str:
        """Hexadecimal digest of all events so far."""
        return self._hash.hexdigest()

    def story(self) -> list[str]:
        """The lines that were kept, oldest first."""
        return [f"{now_ms:7d} {text}" for now_ms, text in self._lines]
