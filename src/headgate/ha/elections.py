"""Who leads a job: the election on shared files, and the election in ZooKeeper.

Each tells three things: whether this driver has won, whether it still leads, and who does otherwise. How
long such a word may be believed is `core.leadership`; when to ask is `runtime.leadership`. Nothing here
waits, but for a disk or a server.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from headgate.checkpoint.storage.storage_contract import KeepsTemporaries, UnsureWriteError
from headgate.common.decoders import UNDECODABLE, msgpack_decoder
from headgate.common.errors import StorageError
from headgate.common.ports import Clock, Disk
from headgate.ha.zookeeper.znodes import Create, Delete, RejectedError, SetData, ZNodes

BEAT: Final = ".beat"
"""Ends the names of files that leaders renew."""

ENDED: Final = ".ended"
"""Ends the names of files of leaders that have brought the job to its end."""


UNTOLD: Final = " untold"
"""Behind the number of ended runs in ZooKeeper: the driver that ended the last one has not left yet."""


@dataclass(frozen=True, slots=True)
class Candidacy:
    """What one look at an election said.

    Attributes:
        won_ms: when the request that won was sent, by the monotonic clock; None when another leads.
        run: how often the job had been brought to its end before; known to the winner only.
        leader: who leads, in words, as far as that is known.
        ended: the leader that was there at an earlier look has since brought the job to its end.
    """

    won_ms: int | None
    leader: str = "another driver"
    ended: bool = False
    run: int = 0


@dataclass(frozen=True, slots=True)
class Sign:
    """The last that was heard of a leader; two that differ were left at two times.

    Attributes:
        run: how often the job had been brought to its end before.
        released: whether it has made room.
        term: of how many leaders it is the last.
        count: how often it has left a sign.
    """

    who: str
    run: int
    released: bool
    term: int
    count: int


class OustedError(StorageError):
    """Somebody else leads, or nobody does: this driver certainly does not."""


class Election(Protocol):
    """One driver's part in the election of a job's leader. One thread at a time."""

    @property
    def lease_ms(self) -> int:
        """How long after a proof nobody else can win."""
        ...

    @property
    def margin_ms(self) -> int:
        """How much of the lease is left for what was begun in it."""
        ...

    @property
    def regains(self) -> bool:
        """Whether a driver whose lease is over may win again while nobody else has: :meth:`regain`."""
        ...

    def campaign(self) -> Candidacy:
        """Try to win, or see who has."""
        ...

    def regain(self) -> Candidacy:
        """The lease is over, and nobody else is known to lead: try to win again, without a pause.

        Raises:
            OustedError: somebody else has won since.
        """
        ...

    def renew(self) -> None:
        """Prove that this driver leads.

        Raises:
            OustedError: it does not any more.
        """
        ...

    def end(self) -> None:
        """Record that the job is over, while this driver leads it: no other one goes on with this run.

        May be repeated. Before it has returned, what the next driver would begin with must stay.

        Raises:
            OustedError: this driver does not lead.
            StorageError: whether it is recorded cannot be told.
        """
        ...

    def resign(self) -> None:
        """Make room at once."""
        ...


class _Beat(msgspec.Struct, frozen=True):
    """What a leader leaves for others to see."""

    token: str
    who: str
    run: int = 0
    count: int = 0
    released: bool = False


_encoder: Final = msgspec.msgpack.Encoder()
_beats: Final = msgpack_decoder(_Beat)


def this_driver() -> str:
    """Host and process, for people."""
    return f"process {os.getpid()} on {socket.gethostname()}"


class FileElection:
    """The election on a disk that all drivers share.

    Term n is the file ``<folder>/<n in 19 digits>``, created if absent by whoever wins it. Its leader
    rewrites ``<n>.beat`` again and again. Whoever has seen the same beat for a whole lease by its own clock
    may try to win term n + 1. Clocks of different machines are never compared. ``<n>.ended`` says that the
    job was brought to its end in this term: a file of its own, which no late beat can overwrite.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        clock: Clock,
        lease_ms: int,
        token: Callable[[int], bytes] = secrets.token_bytes,
        who: str = "",
    ) -> None:
        self._disk, self._folder, self._clock = disk, folder, clock
        self._lease_ms = lease_ms
        self._beat = _Beat(token(16).hex(), who or this_driver())
        self._term = self._highest = 0
        self._seen: tuple[int, bytes | None] | None = None
        self._seen_ms = 0
        self._watched_a_leader = False
        self._unfinished: tuple[int, list[str]] = 0, []

    @property
    def lease_ms(self) -> int:
        """How long a standby waits without seeing a change."""
        return self._lease_ms

    @property
    def margin_ms(self) -> int:
        """A third: for clocks that run at different speeds, and for the way of a commit."""
        return self._lease_ms // 3

    @property
    def regains(self) -> bool:
        """As long as no later term is another's: whoever takes over creates one."""
        return True

    def leader(self) -> Sign | None:
        """The last sign of a leader, whoever looks; None where there has been none."""
        term = max(self._terms(), default=0)
        beat = self._read(term) if term else None
        return None if beat is None else Sign(beat.who, beat.run, beat.released, term, beat.count)

    def campaign(self) -> Candidacy:
        """Try to win the next term where the present one has lapsed, or see who leads it."""
        looked_ms = self._clock.monotonic_ms()
        last = self._last()
        beat = self._read(last) if last else None
        if last and not self._lapsed(last, beat, looked_ms):
            return Candidacy(None, _leader(beat))
        ended = last > 0 and self._has_ended(last)
        if ended and self._watched_a_leader:
            self._make_room_for_next(last, beat)
            return Candidacy(None, _leader(beat), ended=True)
        run = 0 if beat is None else beat.run + ended
        self._beat = msgspec.structs.replace(self._beat, run=run)
        if not self._win(last + 1):
            return Candidacy(None)
        self._term = last + 1
        self._clean_up()
        return Candidacy(looked_ms, self._beat.who, run=run)

    def regain(self) -> Candidacy:
        """Win the term behind the own one: of all who try one creates it, and no term is won twice.

        There is no beat of another to be waited for. A standby that sees the new term waits a lease from
        then on, so what is granted counts from before the look, as ever.
        """
        looked_ms = self._clock.monotonic_ms()
        last = self._last_if_own()
        if not self._win(last + 1):
            return Candidacy(None)
        self._term = last + 1
        self._clean_up()
        return Candidacy(looked_ms, self._beat.who, run=self._beat.run)

    def _last(self) -> int:
        """The last term there is; 0 where there was none."""
        last = max(self._terms(), default=0)
        if last < self._highest:
            raise StorageError(
                f"{self._disk.describe(self._name(self._highest))} was there and is not; is the disk away?"
            )
        self._highest = last
        return last

    def renew(self) -> None:
        """Rewrite the beat, then look for a later term."""
        self._write_beat()
        self._remove_unfinished()
        if self._last_if_own() != self._term:
            raise StorageError(f"{self._disk.describe(self._name(self._term))} was followed by a late write")

    def _last_if_own(self) -> int:
        """The last term, if that is one that this driver has won, or has tried to."""
        last = self._last()
        if last == self._term:
            return last
        beat = self._read(last)
        if beat is not None and beat.token == self._beat.token:
            return last  # created by a write of which nobody knew whether it had succeeded
        raise OustedError(
            f"{_leader(beat)} has taken over in term {last} of {self._disk.describe(self._folder)}"
        )

    def end(self) -> None:
        """Write the file that says so; in a term that was taken over nobody looks for it."""
        self._disk.create_if_absent(self._name(self._term) + ENDED, self._beat.token.encode())

    def resign(self) -> None:
        """Leave a last beat that says so."""
        if self._term:
            self._beat = msgspec.structs.replace(self._beat, released=True)
            self._write_beat()

    def _make_room_for_next(self, term: int, beat: _Beat | None) -> None:
        """In place of a driver that died behind the end: who is started from now on wants another run."""
        if beat is not None and not beat.released:
            released = msgspec.structs.replace(beat, released=True)
            self._disk.create(self._name(term) + BEAT, [_encoder.encode(released)])

    def _has_ended(self, term: int) -> bool:
        try:
            self._disk.read(self._name(term) + ENDED)
        except FileNotFoundError:
            return False
        return True

    def _lapsed(self, term: int, beat: _Beat | None, looked_ms: int) -> bool:
        """Whether the leader of the last term has given up, or has been still for a lease."""
        if beat is not None and beat.released:
            return True
        self._watched_a_leader = True
        seen = (term, None if beat is None else _encoder.encode(beat))
        if seen != self._seen:
            # From now, and not from before the look: what was seen may have been written meanwhile.
            self._seen, self._seen_ms = seen, self._clock.monotonic_ms()
            return False
        return looked_ms - self._seen_ms >= self._lease_ms

    def _win(self, term: int) -> bool:
        name, data = self._name(term), _encoder.encode(self._beat)
        try:
            created = self._disk.create_if_absent(name, data)
        except UnsureWriteError:
            created = self._holds(name, data)
        # In a place from which later terms were cleaned up nothing is won.
        return created and self._last() == term

    def _holds(self, name: str, data: bytes) -> bool:
        try:
            return self._disk.read(name) == data
        except FileNotFoundError:
            return False

    def _write_beat(self) -> None:
        self._beat = msgspec.structs.replace(self._beat, count=self._beat.count + 1)
        self._disk.create(self._name(self._term) + BEAT, [_encoder.encode(self._beat)])

    def _read(self, term: int) -> _Beat | None:
        """The last word of a term's leader; None when the term was cleaned up meanwhile."""
        for name in (self._name(term) + BEAT, self._name(term)):
            try:
                return _beats.decode(self._disk.read(name))
            except FileNotFoundError:
                continue
            except UNDECODABLE as error:
                raise StorageError(
                    f"{self._disk.describe(name)} is damaged: {error}; stop all drivers of this job and "
                    "delete its folder"
                ) from error
        return None

    def _terms(self) -> list[int]:
        names = (name.rpartition("/")[2] for name in self._disk.list(self._folder))
        return [int(name) for name in names if len(name) == 19 and name.isascii() and name.isdigit()]

    def _clean_up(self) -> None:
        """Remove what earlier terms left; what cannot be removed is in nobody's way."""
        own = self._name(self._term)
        with suppress(StorageError):
            for name in self._disk.list(self._folder):
                if name.removesuffix(BEAT) < own:
                    self._disk.delete(name)
            if isinstance(self._disk, KeepsTemporaries):
                found = list(self._disk.temporaries(self._folder))
                self._unfinished = self._clock.monotonic_ms(), found

    def _remove_unfinished(self) -> None:
        """What was half-written when this term began, and still is a lease later, is a dead driver's."""
        since_ms, names = self._unfinished
        if names and self._clock.monotonic_ms() - since_ms >= self._lease_ms:
            self._unfinished = since_ms, []
            with suppress(StorageError):
                for name in names:
                    self._disk.delete(name)

    def _name(self, term: int) -> str:
        return f"{self._folder}/{term:019d}"


class ZooKeeperElection:
    """The election among ephemeral nodes: whose has the smallest number leads.

    A proof is a write to one's own node, because a read could come from a server that has lost its quorum.
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
        self._lease_ms = nodes.session_ms
        self._who = (who or this_driver()).encode()
        self._name = ""
        self._own = ""
        self._first_run: int | None = None
        self._led_run = 0
        self._ended = False

    @property
    def lease_ms(self) -> int:
        """The session's timeout."""
        return self._lease_ms

    @property
    def margin_ms(self) -> int:
        """A half: besides the way of a commit it covers what a server had not yet told its leader."""
        return self._lease_ms // 2

    @property
    def regains(self) -> bool:
        """Never: a session that has ended is over."""
        return False

    def regain(self) -> Candidacy:
        """Nothing can be won in a session that has ended.

        Raises:
            OustedError: always.
        """
        raise OustedError(f"the session with {self._nodes.describe(self._folder)} has expired")

    def campaign(self) -> Candidacy:
        """Take part, and look whether everybody before has gone."""
        if self._first_run is None:
            self._nodes.ensure(self._folder)
        if not self._own and not self._enter():
            return Candidacy(None)
        sent_ms = self._clock.monotonic_ms()
        if not self._touch():
            return Candidacy(None)
        # Behind the write no server is so far behind that it would not know of an end before.
        self._first_run = self._run()[0] if self._first_run is None else self._first_run
        first = min(self._nodes.children(self._folder), key=_number, default="")
        if f"{self._folder}/{first}" != self._own:
            node = self._nodes.read(f"{self._folder}/{first}")
            return Candidacy(None, "another driver" if node is None else node.data.decode(errors="replace"))
        run, untold = self._run()
        if untold:
            # Whoever ended the job died before it could leave; who is started from now on wants another run.
            self._nodes.change([SetData(self._own, self._who), SetData(self._folder, str(run).encode())])
        if untold or run != self._first_run:
            return Candidacy(None, ended=True)
        self._led_run = run
        return Candidacy(sent_ms, self._who.decode(), run=run)

    def renew(self) -> None:
        """Write to the own node."""
        if not self._touch():
            raise OustedError(f"the session with {self._nodes.describe(self._folder)} has expired")
        if self._nodes.session_ms < self._lease_ms:
            raise StorageError(
                f"{self._nodes.describe(self._folder)} keeps sessions for {self._nodes.session_ms} ms now, "
                f"instead of {self._lease_ms} ms; give all its servers one maxSessionTimeout"
            )

    def end(self) -> None:
        """Count it, as long as the own node is there: an answer that comes late counts only until then."""
        over = f"{self._led_run + 1}{UNTOLD}".encode()  # of one run the same, however often it is written
        try:
            self._nodes.change([SetData(self._own, self._who), SetData(self._folder, over)])
        except RejectedError as error:
            raise OustedError(f"the session with {self._nodes.describe(self._folder)} has expired") from error
        self._ended = True

    def resign(self) -> None:
        """Remove the own node."""
        if self._own:
            told = [SetData(self._folder, str(self._led_run + 1).encode())] if self._ended else []
            self._nodes.change([*told, Delete(self._own)])
            self._own = ""

    def _enter(self) -> bool:
        """Make the own node; False when the server has to be asked again."""
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

    def _touch(self) -> bool:
        """Prove that the own node is there; False when it is gone."""
        try:
            self._nodes.change([SetData(self._own, self._who)])
        except RejectedError:
            self._own = self._name = ""
            return False
        return True

    def _run(self) -> tuple[int, bool]:
        """How often the job has ended, and whether the driver that ended it last has not left yet."""
        node = self._nodes.read(self._folder)
        data = b"" if node is None else node.data
        number = data.removesuffix(UNTOLD.encode())
        if number and not number.isdigit():
            raise StorageError(
                f"{self._nodes.describe(self._folder)} holds {data[:40]!r}; expected how often the job has "
                "ended: stop all its drivers and write that number there"
            )
        return int(number or b"0"), number != data


def _leader(beat: _Beat | None) -> str:
    return "another driver" if beat is None else beat.who


def _number(name: str) -> str:
    return name.rpartition("-")[2]
