"""Counting slots: what a job needs, what others hold, and the refusal in one line."""

from __future__ import annotations

import pytest

from headgate.common.errors import UsageError
from headgate.deploy.spark.slots import Need, holding, too_few


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
        (Need(2, 1), 2, "local[2]", "open the session with master local[3], or lower the parallelism to 1"),
        (
            Need(2, 1),
            2,
            "spark://n:7077",
            "give the application more cores or executors (3 slots in all), or",
        ),
        (Need(1, 1), 1, "local", "local[2], or set headgate.spark.reserved-slots=0"),
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
