"""The election of a leader in ZooKeeper, by ephemeral nodes that the server numbers."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.common.errors import StorageError
from headgate.common.ports import Clock
from headgate.ha.contract.election import Candidacy, LostLeadershipError, this_driver
from headgate.ha.zookeeper.znodes import Create, Delete, RejectedError, SetData, ZNodes

UNTOLD: Final = " untold"
"""Stored after the number of ended runs while the driver that ended the last run has not left yet."""


class ZooKeeperElection:
    """The election of a job's leader: the candidate whose ephemeral node has the smallest number leads.

    Each driver has a node below `folder` for as long as its ZooKeeper session lasts. A proof is a write to
    one's own node, because a read could come from a server that has lost its quorum. `folder` itself holds
    how often the job was brought to its end. A driver whose session has expired cannot win again.
    """

    def __init__(
        self,
        nodes: ZNodes,
        folder: str,
        clock: Clock,
        token: Callable[[int], bytes] = secrets.token_bytes,
        who: str = "",
    ) -> None:
        self._nodes, self._folder, self._clock, self._token = nodes, folder, clock, token
        self.lease_ms = nodes.session_ms
        # Besides the way of a commit it covers what a server had not yet sent to its leader.
        self.margin_ms = self.lease_ms // 2
        self.regains = False  # a session that has ended does not come back
        self._who = (who or this_driver()).encode()
        self._name = ""
        self._own = ""
        self._first_run: int | None = None
        self._led_run = 0
        self._ended = False

    def regain(self) -> Candidacy:
        raise self._expired()

    def campaign(self) -> Candidacy:
        if self._first_run is None:
            self._nodes.ensure(self._folder)
        if not self._own and not self._enter():
            return Candidacy(None)
        sent_ms = self._clock.monotonic_ms()
        if not self._prove():
            return Candidacy(None)
        # After the write no server lags so far that it would not know of an end before.
        self._first_run = self._run()[0] if self._first_run is None else self._first_run
        first = min(self._nodes.children(self._folder), key=_number, default="")
        if f"{self._folder}/{first}" != self._own:
            node = self._nodes.read(f"{self._folder}/{first}")
            return Candidacy(None, "another driver" if node is None else node.data.decode(errors="replace"))
        run, untold = self._run()
        if untold:
            # The driver that ended the job died before it could leave; what starts now is another run.
            self._nodes.change([SetData(self._own, self._who), SetData(self._folder, str(run).encode())])
        if untold or run != self._first_run:
            return Candidacy(None, ended=True)
        self._led_run = run
        return Candidacy(sent_ms, self._who.decode(), run=run)

    def renew(self) -> None:
        if not self._prove():
            raise self._expired()
        if self._nodes.session_ms < self.lease_ms:
            raise StorageError(
                f"{self._nodes.describe(self._folder)} keeps sessions for {self._nodes.session_ms} ms now, "
                f"instead of {self.lease_ms} ms; give all its servers one maxSessionTimeout"
            )

    def end(self) -> None:
        ended = f"{self._led_run + 1}{UNTOLD}".encode()  # of one run the same, however often it is written
        try:
            self._nodes.change([SetData(self._own, self._who), SetData(self._folder, ended)])
        except RejectedError as error:
            raise self._expired() from error
        self._ended = True

    def resign(self) -> None:
        if self._own:
            counted = [SetData(self._folder, str(self._led_run + 1).encode())] if self._ended else []
            self._nodes.change([*counted, Delete(self._own)])
            self._own = ""

    def _enter(self) -> bool:
        if not self._name:
            self._name = self._token(16).hex()
        mine = [name for name in self._nodes.children(self._folder) if name.startswith(self._name)]
        if not mine:
            create = Create(f"{self._folder}/{self._name}-", self._who, ephemeral=True, sequential=True)
            try:
                mine = [self._nodes.change([create])[0].rpartition("/")[2]]
            except UnsureWriteError:
                return False
        self._own = f"{self._folder}/{min(mine, key=_number)}"
        return True

    def _prove(self) -> bool:
        try:
            self._nodes.change([SetData(self._own, self._who)])
        except RejectedError:
            self._own = self._name = ""
            return False
        return True

    def _expired(self) -> LostLeadershipError:
        return LostLeadershipError(f"the session with {self._nodes.describe(self._folder)} has expired")

    def _run(self) -> tuple[int, bool]:
        node = self._nodes.read(self._folder)
        data = b"" if node is None else node.data
        number = data.removesuffix(UNTOLD.encode())
        if number and not number.isdigit():
            raise StorageError(
                f"{self._nodes.describe(self._folder)} holds {data[:40]!r}; expected how often the job has "
                "ended: stop all its drivers and write that number there"
            )
        return int(number or b"0"), number != data


def _number(name: str) -> str:
    return name.rpartition("-")[2]
