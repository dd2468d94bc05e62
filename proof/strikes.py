"""Faults at named places: the harness arms a place, the first process that reaches it strikes, once.

Driver and workers are told of places through the option `headgate.probe`, which names
:func:`file_probe`. They and the harness meet in a folder, so it works across processes: an armed
place is a file, and striking begins with renaming it, which succeeds for exactly one process.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "HEADGATE_PROOF_FOLDER"
PROBE = "proof.strikes:file_probe"

KILL_SELF, KILL, RAISE = "kill-self", "kill", "raise"


class PlannedError(Exception):
    """What user code or a connector raises because the harness wants it to."""


class Strikes:
    """The folder with armed places, seen by harness, driver and workers.

    Args:
        folder: where they meet; created when missing.
    """

    def __init__(self, folder: Path) -> None:
        self._armed, self._struck = folder / "armed", folder / "struck"
        self._armed.mkdir(parents=True, exist_ok=True)
        self._struck.mkdir(exist_ok=True)

    def arm(self, place: str, action: str, *, only_pid: int | None = None, victim: int | None = None) -> None:
        """Have the next process that reaches `place` strike.

        Args:
            place: its name; one fault at a time waits there.
            action: KILL_SELF, KILL (the victim, and go on), or RAISE.
            only_pid: strike in no other process.
            victim: the process that KILL kills.
        """
        self._struck_file(place).unlink(missing_ok=True)
        _write(self._armed / place, {"action": action, "only_pid": only_pid, "victim": victim})

    def struck_at(self, place: str) -> float | None:
        """When the armed fault struck (seconds of the monotonic clock, which processes share), or None."""
        try:
            told: float = json.loads(self._struck_file(place).read_text())["at_s"]
        except FileNotFoundError:
            return None
        return told

    def disarm(self) -> None:
        """Take back what did not strike."""
        for file in self._armed.iterdir():
            file.unlink(missing_ok=True)

    def reached(self, place: str) -> None:
        """A process is at `place`: strike if it is armed.

        Raises:
            PlannedError: that is the fault.
        """
        armed = self._armed / place
        if not armed.exists():
            return
        with suppress(FileNotFoundError):
            order: dict[str, Any] = json.loads(armed.read_text())
            if order["only_pid"] in (None, os.getpid()):
                armed.rename(self._armed.parent / f"taken-{place}-{os.getpid()}")
                self._strike(place, order)

    def _strike(self, place: str, order: dict[str, Any]) -> None:
        _write(self._struck_file(place), {"at_s": time.monotonic(), "pid": os.getpid()})
        if order["action"] == KILL_SELF:
            os.kill(os.getpid(), signal.SIGKILL)
        elif order["action"] == KILL:
            os.kill(order["victim"], signal.SIGKILL)
        else:
            raise PlannedError(f"the planned fault at {place}")

    def _struck_file(self, place: str) -> Path:
        return self._struck / place


def file_probe() -> Strikes:
    """The probe for `headgate.probe`; finds the folder in the environment, which Spark hands down."""
    return Strikes(Path(os.environ[FOLDER_VARIABLE]))


_here: Strikes | None = None


def reached(place: str) -> None:
    """For user code and connectors of the job, which have no probe of their own."""
    global _here
    if _here is None:
        _here = file_probe()
    _here.reached(place)


def _write(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)
