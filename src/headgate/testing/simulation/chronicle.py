"""The stories of the last checkpoints: who was asked, who acknowledged, what was stored, which file when."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final

from headgate.runtime.protocol import messages as m
from headgate.testing.simulation.links import ControlMessage

KEPT: Final = 6
"""Checkpoints whose story is kept."""

_IN_FOLDER: Final = re.compile(r"(?:^|/)chk-(\d+)/")
_NAMED: Final = re.compile(r"checkpoint (\d+)")
_SILENT: Final = ("read", "size", "list")


class Chronicle:
    """What happened to each checkpoint.

    Example:
        >>> chronicle = Chronicle()
        >>> chronicle.file(7, "worker 1.0", "create", "job/chk-3/a", "works")
        >>> chronicle.story("checkpoint 3 cannot be read")
        ['checkpoint 3:', '      7 worker 1.0: create job/chk-3/a']
    """

    def __init__(self) -> None:
        self._stories: OrderedDict[int, list[str]] = OrderedDict()

    def message(self, now_ms: int, where: str, message: ControlMessage) -> None:
        """A control message arrived at `where`."""
        if isinstance(message, m.Trigger):
            what = "savepoint" if message.savepoint else message.alignment
            self.note(message.checkpoint, now_ms, f"{where} is asked ({what})")
        elif isinstance(message, m.Acknowledge):
            task = f"{message.snapshot.vertex}.{message.snapshot.subtask}"
            self.note(message.checkpoint, now_ms, f"{where} hears that {task} acknowledges")
        elif isinstance(message, m.Decline):
            task = f"{message.vertex}.{message.subtask}"
            self.note(message.checkpoint, now_ms, f"{where} hears that {task} declines: {message.reason}")
        elif isinstance(message, m.CheckpointComplete | m.CheckpointAborted):
            word = "complete" if isinstance(message, m.CheckpointComplete) else "aborted"
            self.note(message.checkpoint, now_ms, f"{where} is told that it is {word}")

    def file(self, now_ms: int, who: str, operation: str, name: str, verdict: str) -> None:
        """A file of a checkpoint was touched."""
        found = _IN_FOLDER.search(name)
        if found is not None and operation not in _SILENT:
            result = "" if verdict == "works" else f" {verdict}"
            self.note(int(found[1]), now_ms, f"{who}: {operation} {name}{result}")
        elif "/log/" in name and self._stories and operation not in _SILENT:
            self.note(next(reversed(self._stories)), now_ms, f"{who}: {operation} {name} {verdict}")

    def note(self, checkpoint: int, now_ms: int, text: str) -> None:
        """Something happened to a checkpoint."""
        story = self._stories.get(checkpoint)
        if story is None:
            story = self._stories[checkpoint] = []
            while len(self._stories) > KEPT:
                self._stories.popitem(last=False)
        story.append(f"{now_ms:7d} {text}")

    def story(self, violation: str | None) -> list[str]:
        """That of the checkpoint that `violation` names, else of the last one; empty without a violation."""
        if violation is None or not self._stories:
            return []
        named = [int(number) for number in _NAMED.findall(violation)]
        chosen = next((number for number in named if number in self._stories), next(reversed(self._stories)))
        return [f"checkpoint {chosen}:", *self._stories[chosen]]
