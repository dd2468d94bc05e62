"""Counting slots: what a job needs, what others hold, and the refusal in one line."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.common.errors import OperatingError, UsageError
from headgate.deploy.spark.slots import Need, await_return, holding, too_few


def test_jobs_of_one_application_share_its_slots() -> None:
    """What one job holds another cannot take, until the first has ended; other applications do not count."""
    with holding("app-1", Need(2, 1), 4, "local[4]"):
        with pytest.raises(UsageError, match="has 4, of which other Headgate jobs hold 2"):
            holding("app-1", Need(2, 1), 4, "local[4]").__enter__()
        with holding("app-2", Need(2, 1), 4, "local[4]"), holding("app-1", Need(1, 1), 4, "local[4]"):
            pass
    with holding("app-1", Need(3, 1), 4, "local[4]"):
        pass


def test_slots_come_back_after_a_failure() -> None:
    """A job that fails holds nothing any more."""
    with pytest.raises(RuntimeError), holding("app-3", Need(2, 0), 2, "local[2]"):
        raise RuntimeError
    with holding("app-3", Need(2, 0), 2, "local[2]"):
        pass


@pytest.mark.parametrize(
    ("need", "available", "master", "advice"),
    [
        (Need(2, 1), 2, "local[2]", "master local[3] (headgate run --master 'local[3]'), or lower the par"),
        (
            Need(2, 1),
            2,
            "spark://n:7077",
            "give the application more cores or executors (3 slots in all), or",
        ),
        (Need(1, 1), 1, "local", "'local[2]'), or set headgate.spark.reserved-slots=0"),
        (Need(4, 0), 0, "yarn", "(4 slots in all)"),
    ],
)
def test_the_refusal_says_what_is_missing_and_what_to_do(
    need: Need, available: int, master: str, advice: str
) -> None:
    """Slots needed and found, and each remedy that would help."""
    sentence = too_few(need, available, 0, master)
    assert f"needs {need.total} task slots" in sentence
    assert f"has {available}" in sentence
    assert advice in sentence
    assert "\n" not in sentence


class Executors:
    """A SparkContext as far as slots are counted: how many there are, one look after the other."""

    def __init__(self, *slots: int) -> None:
        self.looks = list(slots)
        self._jsc = self

    def sc(self) -> Executors:
        return self

    def resourceProfileManager(self) -> Any:  # noqa: N802 - Spark's name
        return SimpleNamespace(defaultResourceProfile=lambda: None)

    def maxNumConcurrentTasks(self, profile: None) -> int:  # noqa: N802
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def wait(executors: Executors, within_s: float, given_up: threading.Event | None = None) -> None:
    """For a gang of three, with one slot reserved."""
    with holding("app-5", Need(3, 1), 4, "spark://n:7077") as hold:
        await_return(executors, hold, 3, within_s, given_up or threading.Event())  # type: ignore[arg-type]


def test_a_gang_waits_until_lost_executors_are_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """It says so once, and does not wait for the slots that are reserved."""
    with caplog.at_level(logging.WARNING):
        wait(Executors(2, 2, 3), 60)
    (said,) = caplog.messages
    assert said.startswith(
        "the workers need 3 task slots, and Spark at spark://n:7077 has 2 now: executors were"
    )


def test_executors_that_do_not_come_back_end_the_wait_with_what_would_help() -> None:
    """Fewer workers, if there are slots for any beside those that are reserved."""
    with pytest.raises(
        OperatingError, match="or with fewer: headgate rescale JOB --parallelism 1 --from-last"
    ):
        wait(Executors(2), 0)
    with pytest.raises(OperatingError, match=r"goes on when they are replaced$"):
        wait(Executors(1), 0)


def test_a_gang_that_nobody_wants_any_more_waits_no_longer() -> None:
    """As when the job goes on with fewer workers."""
    given_up = threading.Event()
    given_up.set()
    wait(Executors(0), 60, given_up)
