"""Small state with a log, as large state has: the limits of the log, as a seed wants them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from headgate.runtime.worker.operators.columns.updating import logged_state


@contextmanager
def limits_of_log(seed: int) -> Iterator[None]:
    """While the block lasts, most seeds have a log from the first row on, some with few files or rows."""
    rng = random.Random(f"{seed} log")
    with (
        mock.patch.object(logged_state, "ROWS_MIN", 0 if logs_early(seed) else logged_state.ROWS_MIN),
        mock.patch.object(logged_state, "FILES_MAX", rng.choice((3, 1_000, 1_000))),
        mock.patch.object(logged_state, "SPARE_ROWS", rng.choice((20, logged_state.SPARE_ROWS))),
    ):
        yield


def logs_early(seed: int) -> bool:
    """Whether a seed's state has a log from the first row on; then no file should be in the metadata."""
    return seed % 4 != 0
