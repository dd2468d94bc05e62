"""What the command says of drivers that do not lead their job, or are stopped from outside."""

from __future__ import annotations

import pytest

from headgate.cli.exit_codes import ExitCode, SignalledError, ending_of
from headgate.common.errors import FencedError


def test_a_driver_that_does_not_lead_has_not_failed() -> None:
    """Its code tells it from a job that failed, and from a program that was refused."""
    ending = ending_of(FencedError("job 'clicks' is led by process 7 on a"))
    assert (ending.code, ending.text) == (75, "headgate: job 'clicks' is led by process 7 on a")


@pytest.mark.parametrize(
    ("goes_on", "text"), [(False, "cancelled by a signal"), (True, "the next driver goes on")]
)
def test_a_signal_cancels_or_hands_over(goes_on: bool, text: str) -> None:
    """The code is that of the signal; what became of the job is said."""
    error = SignalledError(ExitCode.TERMINATED)
    error.goes_on = goes_on
    ending = ending_of(error)
    assert ending.code == 143
    assert text in ending.text
