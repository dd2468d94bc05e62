"""Every interleaving of a small job, to the last new state: a rescale goes to another plan of two workers."""

from __future__ import annotations

import pytest
from job_model import TWO_AGAIN, Case
from life_search import whole


@pytest.mark.proof
@pytest.mark.timeout(7_200)
def test_every_life() -> None:
    """Nearly every row of the table is taken from every phase that it lists."""
    whole(Case(TWO_AGAIN))
