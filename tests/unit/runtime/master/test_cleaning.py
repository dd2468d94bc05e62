"""Deletions beside the loop: tried a few times, counted while they last, and given up with a word."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from operator_samples import ManualClock

from headgate.common.errors import FencedError, StorageError
from headgate.runtime.master.checkpoints.deleting_files import ATTEMPTS_MAX, PAUSE_MS, Cleaning


class Yard:
    """A background that works at once, and the count of what is under way."""

    def __init__(self) -> None:
        self.clock, self.posted = ManualClock(), deque[Callable[[], None]]()
        self.under_way, self.fences = 0, 0
        self.errors: list[Exception | None] = []
        self.tried = 0
        self.cleaning = Cleaning(self, self.posted.append, self.clock)

    def submit(self, work: Any, done: Any) -> None:
        """`Background`."""
        try:
            result, failure = work(), None
        except Exception as error:
            result, failure = None, error
        done(result, failure)

    def delete(self, what: str, work: Callable[[], None]) -> None:
        """One more is under way."""
        self.under_way += 1
        self.cleaning.delete(what, work)

    def work(self) -> None:
        """What is deleted; fails as `errors` say."""
        self.tried += 1
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def pass_time(self, ms: int) -> None:
        """The loop wakes up again."""
        self.clock.now += ms
        self.cleaning.tick()
        while self.posted:
            self.posted.popleft()()
        for fence in self.cleaning.take_ended():
            self.under_way -= 1
            self.fences += fence is not None


def test_it_is_tried_again_after_longer_and_longer_pauses() -> None:
    """Under way until it is done; nothing is due afterwards."""
    yard = Yard()
    yard.errors = [StorageError("busy"), StorageError("busy")]
    yard.delete("a file", yard.work)
    yard.pass_time(0)
    assert (yard.tried, yard.under_way) == (1, 1)
    yard.pass_time(PAUSE_MS - 1)
    assert yard.tried == 1
    yard.pass_time(1)
    assert yard.tried == 2
    assert yard.cleaning.next_wakeup() == yard.clock.now + 2 * PAUSE_MS
    yard.pass_time(2 * PAUSE_MS)
    assert (yard.tried, yard.under_way, yard.cleaning.next_wakeup()) == (3, 0, None)


def test_it_is_given_up_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    """The reason and what was left are told once."""
    yard = Yard()
    yard.errors = [StorageError("no such device")] * ATTEMPTS_MAX
    with caplog.at_level(logging.WARNING, "headgate.checkpoints"):
        yard.delete("checkpoint 7", yard.work)
        for _ in range(2 * ATTEMPTS_MAX):
            yard.pass_time(PAUSE_MS << ATTEMPTS_MAX)
    assert (yard.tried, yard.under_way) == (ATTEMPTS_MAX, 0)
    (told,) = caplog.records
    assert told.getMessage() == (
        "checkpoint 7 could not be deleted: no such device; the next restart of the job or "
        "'headgate checkpoint prune' deletes what is left"
    )


def test_who_was_replaced_deletes_nothing_more() -> None:
    """What waited is given up; the owner is told."""
    yard = Yard()
    yard.errors = [StorageError("busy"), FencedError("another job master")]
    yard.delete("one", yard.work)
    yard.delete("two", yard.work)
    yard.pass_time(0)
    yard.pass_time(10 * PAUSE_MS)
    assert (yard.tried, yard.fences, yard.under_way) == (2, 1, 0)


def test_behind_the_end_it_is_tried_again_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """The loop will not turn again, and no later start of the job either."""
    yard = Yard()
    yard.cleaning.close()
    yard.errors = [StorageError("busy")] * (ATTEMPTS_MAX - 1)
    yard.delete("last", yard.work)
    assert yard.tried == ATTEMPTS_MAX
    yard.pass_time(0)
    assert (yard.under_way, yard.cleaning.next_wakeup(), caplog.records) == (0, None, [])


def test_behind_the_end_it_is_given_up_with_what_helps(caplog: pytest.LogCaptureFixture) -> None:
    """As often as at any other time; a job that has ended has no next start."""
    yard = Yard()
    yard.cleaning.close()
    yard.errors = [StorageError("no such device")] * (2 * ATTEMPTS_MAX)
    with caplog.at_level(logging.WARNING, "headgate.checkpoints"):
        yard.delete("last", yard.work)
        yard.pass_time(0)
    assert (yard.tried, yard.under_way) == (ATTEMPTS_MAX, 0)
    assert [record.getMessage() for record in caplog.records] == [
        "last could not be deleted: no such device; 'headgate checkpoint prune' deletes what is left"
    ]


def test_an_end_in_the_middle_of_a_deletion() -> None:
    """What has begun before goes on with the attempts that are left to it."""
    yard = Yard()
    yard.errors = [StorageError("busy")] * (ATTEMPTS_MAX - 1)

    def work() -> None:
        if yard.tried == 0:
            yard.cleaning.close()
        yard.work()

    yard.delete("last", work)
    yard.pass_time(0)
    assert (yard.tried, yard.under_way, yard.errors) == (ATTEMPTS_MAX, 0, [])


def test_an_end_while_a_deletion_waits_for_its_next_attempt() -> None:
    """It is not given up: the storage may be there again by now."""
    yard = Yard()
    yard.errors = [StorageError("out of order")]
    yard.delete("last", yard.work)
    yard.pass_time(0)
    assert (yard.tried, yard.under_way) == (1, 1)
    yard.cleaning.close()
    yard.pass_time(0)
    assert (yard.tried, yard.under_way, yard.cleaning.next_wakeup()) == (2, 0, None)


def test_behind_the_end_who_was_replaced_does_not_try_again() -> None:
    """The files are another job master's."""
    yard = Yard()
    yard.cleaning.close()
    yard.errors = [FencedError("another job master")]
    yard.delete("last", yard.work)
    yard.pass_time(0)
    assert (yard.tried, yard.fences, yard.under_way) == (1, 1, 0)


def test_a_log_given_up_half_way_is_no_other_job_masters(caplog: pytest.LogCaptureFixture) -> None:
    """It looks like one; the first error tells what happened."""
    yard = Yard()
    yard.cleaning.close()
    yard.errors = [StorageError("no such device"), FencedError("another job master")]
    with caplog.at_level(logging.WARNING, "headgate.checkpoints"):
        yard.delete("last", yard.work)
        yard.pass_time(0)
    assert (yard.tried, yard.fences, yard.under_way) == (2, 0, 0)
    assert "no such device" in caplog.records[0].getMessage()
