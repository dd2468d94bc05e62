"""Trace of a simulation: a hash over all events, the last ones as text, and traces of checkpoints."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict, deque
from typing import Final

from headgate.runtime.protocol import messages as m

KEPT: Final = 6
"""Number of the latest checkpoints whose trace is kept."""

_IN_FOLDER: Final = re.compile(r"(?:^|/)chk-(\d+)/")
_NAMED: Final = re.compile(r"checkpoint (\d+)")
_SILENT: Final = ("read", "size", "list")


class Trace:
    """The events of a simulation: their number `count`, a digest (equal for equal seeds), and the last lines.

    The last `story_max` lines are kept; None keeps all.

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
        """Add one event, a line of text, at virtual time `now_ms`, to count, digest and story."""
        self.count += 1
        self._hash.update(f"{now_ms} {text}\n".encode())
        self._lines.append((now_ms, text))

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def story(self) -> list[str]:
        return [f"{now_ms:7d} {text}" for now_ms, text in self._lines]


class CheckpointTraces:
    """Traces of the latest checkpoints, each with its triggers, acknowledgements and files.

    Example:
        >>> traces = CheckpointTraces()
        >>> traces.file(7, "worker 1.0", "create", "job/chk-3/a", "works")
        >>> traces.story("checkpoint 3 cannot be read")
        ['checkpoint 3:', '      7 worker 1.0: create job/chk-3/a']
    """

    def __init__(self) -> None:
        self._traces: OrderedDict[int, list[str]] = OrderedDict()

    def message(self, now_ms: int, where: str, message: m.FromWorker | m.ToWorker) -> None:
        """Add a line for a control message that arrived at process `where`, if it is about a checkpoint."""
        match message:
            case m.Trigger():
                what = f"is asked ({'savepoint' if message.savepoint else message.alignment})"
            case m.Acknowledge(snapshot=taken):
                what = f"hears that {taken.vertex}.{taken.subtask} acknowledges"
            case m.Decline():
                what = f"hears that {message.vertex}.{message.subtask} declines: {message.reason}"
            case m.CheckpointComplete():
                what = "is told that it is complete"
            case m.CheckpointAborted():
                what = "is told that it is aborted"
            case _:
                return
        self.note(message.checkpoint, now_ms, f"{where} {what}")

    def file(self, now_ms: int, who: str, operation: str, name: str, verdict: str) -> None:
        """Add a line for an operation, but no read, of process `who`: to the trace of the checkpoint in whose
        folder file `name` is, or to the latest one's if it is of the log; other files are ignored.
        """
        found = _IN_FOLDER.search(name)
        if found is not None and operation not in _SILENT:
            result = "" if verdict == "works" else f" {verdict}"
            self.note(int(found[1]), now_ms, f"{who}: {operation} {name}{result}")
        elif "/log/" in name and self._traces and operation not in _SILENT:
            self.note(next(reversed(self._traces)), now_ms, f"{who}: {operation} {name} {verdict}")

    def note(self, checkpoint: int, now_ms: int, text: str) -> None:
        self._traces.setdefault(checkpoint, []).append(f"{now_ms:7d} {text}")
        while len(self._traces) > KEPT:
            self._traces.popitem(last=False)

    def story(self, violation: str | None) -> list[str]:
        """Return a title and lines of the checkpoint that `violation` names, else the latest; [] for None."""
        if violation is None or not self._traces:
            return []
        named = [int(number) for number in _NAMED.findall(violation)]
        chosen = next((number for number in named if number in self._traces), next(reversed(self._traces)))
        return [f"checkpoint {chosen}:", *self._traces[chosen]]
