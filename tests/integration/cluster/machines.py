"""Another machine, as far as this one's kernel can play it: its own network, and folders that it lacks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NAME: Final = f"hg{os.getpid() % 1_000_000}"
_NET: Final = f"10.213.{os.getpid() % 250}"


@dataclass(frozen=True, slots=True)
class Machines:
    """Two machines and a wire between them.

    Attributes:
        here: address of this machine on the wire.
        there: of the other one.
    """

    here: str
    there: str

    def inside(self, lacking: Sequence[Path], there: bool) -> list[str]:
        """The command that starts a process on one of them, where some folders are empty."""
        hidden = "".join(f"mount -t tmpfs none '{folder}' && " for folder in lacking)
        mounts = ["unshare", "--mount", "sh", "-c", f'{hidden}exec "$@"', "sh"]
        return [*(["ip", "netns", "exec", _NAME] if there else []), *mounts]


@contextmanager
def wired() -> Iterator[Machines]:
    """Two machines, for as long as the body runs.

    Raises:
        PermissionError: not here; says why.
    """
    machines = Machines(f"{_NET}.1", f"{_NET}.2")
    try:
        _run("unshare", "--mount", "true")
        _run("ip", "netns", "add", _NAME)
        _run("ip", "link", "add", f"{_NAME}a", "type", "veth", "peer", "name", f"{_NAME}b", "netns", _NAME)
        _run("ip", "address", "add", f"{machines.here}/24", "dev", f"{_NAME}a")
        _run("ip", "link", "set", f"{_NAME}a", "up")
        for command in (
            ("address", "add", f"{machines.there}/24", "dev", f"{_NAME}b"),
            ("link", "set", f"{_NAME}b", "up"),
            ("link", "set", "lo", "up"),
        ):
            _run("ip", "-n", _NAME, *command)
        yield machines
    finally:
        # With the namespace goes its end of the wire, and with that the other one.
        subprocess.run(["ip", "netns", "delete", _NAME], capture_output=True, check=False)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError as error:
        raise PermissionError(f"{command[0]} cannot be run: {error}") from None
    if done.returncode:
        raise PermissionError(f"{' '.join(command)!r} is refused: {done.stderr.strip()}")
