"""The election of a leader on a disk that all drivers share, by files that the leader renews."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from headgate.checkpoint.storage.storage_contract import KeepsTemporaries, UnsureWriteError
from headgate.common.decoders import UNDECODABLE, msgpack_decoder
from headgate.common.errors import StorageError
from headgate.common.ports import Clock, Disk
from headgate.ha.contract.election import Candidacy, LostLeadershipError, this_driver

BEAT: Final = ".beat"  # ends the names of files that leaders renew
ENDED: Final = ".ended"  # ends the names of the files of leaders that have brought the job to its end


@dataclass(frozen=True, slots=True)
class Sign:
    """What a job's leader wrote last; two reads that differ show that the leader was alive in between."""

    who: str
    run: int  # how often the job had been brought to its end before
    released: bool  # whether it lets another driver lead
    term: int  # number of the term that it won, from 1
    count: int  # how often it has left a sign


class _Beat(msgspec.Struct, frozen=True):
    """The content of a leader's file, which it rewrites again and again as its sign of life."""

    token: str
    who: str
    run: int = 0
    count: int = 0
    released: bool = False


_encoder: Final = msgspec.msgpack.Encoder()
_beats: Final = msgpack_decoder(_Beat)


class FileElection:
    """The election of a job's leader by files on a disk that all drivers share.

    Term n is the file ``<folder>/<n in 19 digits>``, created if absent by the driver that wins it. Its leader
    rewrites ``<n>.beat`` again and again. A driver that has seen the same beat for a complete lease by its
    own clock may try to win term n + 1. Clocks of different machines are never compared. ``<n>.ended``
    records that the job was brought to its end in this term: a file of its own, which no late beat can
    overwrite.
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
        self.lease_ms = lease_ms
        # For clocks that run at different speeds, and for the way of a commit.
        self.margin_ms = lease_ms // 3
        self.regains = True  # as long as no later term is another's: the driver that takes over creates one
        self._beat = _Beat(token(16).hex(), who or this_driver())
        self._term = self._highest = 0
        self._seen: tuple[int, bytes | None] | None = None
        self._seen_ms = 0
        self._watched_a_leader = False
        self._unfinished: tuple[int, list[str]] = 0, []

    def leader(self) -> Sign | None:
        """Return what the driver that won the newest term wrote last, whether that driver lives or not; None
        if there was no term yet, or its files were removed meanwhile. StorageError: damage, or the disk
        fails.
        """
        term = max(self._terms(), default=0)
        beat = self._read(term) if term else None
        return None if beat is None else Sign(beat.who, beat.run, beat.released, term, beat.count)

    def campaign(self) -> Candidacy:
        looked_ms = self._clock.monotonic_ms()
        last = self._last()
        beat = self._read(last) if last else None
        if last and not self._lapsed(last, beat, looked_ms):
            return Candidacy(None, _leader(beat))
        ended = last > 0 and self._read_file(self._name(last) + ENDED) is not None
        if ended and self._watched_a_leader:
            self._release_for_next(last, beat)
            return Candidacy(None, _leader(beat), ended=True)
        run = 0 if beat is None else beat.run + ended
        self._beat = msgspec.structs.replace(self._beat, run=run)
        return self._try_to_win(last + 1, looked_ms)

    def regain(self) -> Candidacy:
        """Try to lead again after the lease has ended, by winning the next term before another driver does.

        There is no beat of another driver to be waited for. A standby that sees the new term waits a lease
        from then on; the lease won here counts from before this driver looked. A driver that cannot rewrite
        its own beat wins no term either: where a disk takes new files and nothing else, each term would hold
        the standby up for another lease, and no driver would lead.
        """
        looked_ms = self._clock.monotonic_ms()
        last = self._last_if_own()
        self._write_beat()
        return self._try_to_win(last + 1, looked_ms)

    def _last(self) -> int:
        last = max(self._terms(), default=0)
        if last < self._highest:
            raise StorageError(
                f"{self._disk.describe(self._name(self._highest))} was there and is not; is the disk away?"
            )
        self._highest = last
        return last

    def renew(self) -> None:
        self._write_beat()
        self._remove_unfinished()
        if self._last_if_own() != self._term:
            raise StorageError(f"{self._disk.describe(self._name(self._term))} was followed by a late write")

    def _last_if_own(self) -> int:
        last = self._last()
        if last == self._term:
            return last
        beat = self._read(last)
        if beat is not None and beat.token == self._beat.token:
            return last  # created by a write whose outcome was unknown
        raise LostLeadershipError(
            f"{_leader(beat)} has taken over in term {last} of {self._disk.describe(self._folder)}"
        )

    def end(self) -> None:
        # In a later term the file does not count.
        self._disk.create_if_absent(self._name(self._term) + ENDED, self._beat.token.encode())

    def resign(self) -> None:
        if self._term:
            self._beat = msgspec.structs.replace(self._beat, released=True)
            self._write_beat()

    def _release_for_next(self, term: int, beat: _Beat | None) -> None:
        # Its driver died after the job's end, and what starts now is another run.
        if beat is not None and not beat.released:
            released = msgspec.structs.replace(beat, released=True)
            self._disk.create(self._name(term) + BEAT, [_encoder.encode(released)])

    def _read_file(self, name: str) -> bytes | None:
        try:
            return self._disk.read(name)
        except FileNotFoundError:
            return None

    def _lapsed(self, term: int, beat: _Beat | None, looked_ms: int) -> bool:
        if beat is not None and beat.released:
            return True
        self._watched_a_leader = True
        seen = (term, None if beat is None else _encoder.encode(beat))
        if seen != self._seen:
            # From now, and not from before the look: what was seen may have been written meanwhile.
            self._seen, self._seen_ms = seen, self._clock.monotonic_ms()
            return False
        return looked_ms - self._seen_ms >= self.lease_ms

    def _try_to_win(self, term: int, looked_ms: int) -> Candidacy:
        name, data = self._name(term), _encoder.encode(self._beat)
        try:
            created = self._disk.create_if_absent(name, data)
        except UnsureWriteError:
            created = self._read_file(name) == data
        # In a place from which later terms were cleaned up nothing is won.
        if not created or self._last() != term:
            return Candidacy(None)
        self._term = term
        self._clean_up()
        return Candidacy(looked_ms, self._beat.who, run=self._beat.run)

    def _write_beat(self) -> None:
        self._beat = msgspec.structs.replace(self._beat, count=self._beat.count + 1)
        self._disk.create(self._name(self._term) + BEAT, [_encoder.encode(self._beat)])

    def _read(self, term: int) -> _Beat | None:
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
        own = self._name(self._term)
        with suppress(StorageError):
            for name in self._disk.list(self._folder):
                if name.removesuffix(BEAT) < own:
                    self._disk.delete(name)
            if isinstance(self._disk, KeepsTemporaries):
                found = list(self._disk.temporaries(self._folder))
                self._unfinished = self._clock.monotonic_ms(), found

    def _remove_unfinished(self) -> None:
        # Unfinished when this term began, and still so a lease later: nobody writes these files any more.
        since_ms, names = self._unfinished
        if names and self._clock.monotonic_ms() - since_ms >= self.lease_ms:
            self._unfinished = since_ms, []
            with suppress(StorageError):
                for name in names:
                    self._disk.delete(name)

    def _name(self, term: int) -> str:
        return f"{self._folder}/{term:019d}"


def _leader(beat: _Beat | None) -> str:
    return "another driver" if beat is None else beat.who
