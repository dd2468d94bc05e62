"""Every interleaving of a small job, to the last new state: a rescale takes a checkpoint of its own."""

from __future__ import annotations

import pytest
from job_model import Case
from life_search import whole


@pytest.mark.proof
@pytest.mark.timeout(7_200)
def test_every_life() -> None:
    """Nearly every row of the table is taken from every phase that it lists."""
    whole(Case(from_last=False))
