"""What the operator asks of windows that emit more than once, beside what it asks of all windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.runtime.worker.operators.columns.kept_windows import Ended, KeptWindows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s


class Again(NamedTuple):
    """Windows that emit because of late rows; `places` says which row each row of the table is due to."""

    windows: Ended
    places: Int64s


class Taken(NamedTuple):
    """What became of late rows: windows that emit again, and which rows came too late for any window."""

    fired: list[Again]
    dropped: NDArray[np.bool_]


class PatientWindows(KeptWindows, Protocol):
    """Windows that take late rows for a while, and can say what they have before their end."""

    @property
    def forgotten(self) -> int:
        """Windows whose last ms is this or before are forgotten (ms since 1970)."""

    def marks_of(self, rows: pa.Table, marks: Int64s) -> Int64s:
        """Return `marks`, the watermark of each row, raised to that of the row's group where it is ahead."""

    def may_be_late(self, rows: pa.Table, marks: Int64s) -> NDArray[np.bool_]:
        """Return which rows may have come after the end of one of their windows."""

    def add_late(self, rows: pa.Table, marks: Int64s) -> Taken:
        """Add rows of which `may_be_late` is true, each after those before it."""

    def open_now(self, touched: pa.Table) -> list[Ended]:
        """Return the windows that have not ended, of the keys and panes of `touched`, as they are now."""


def horizon(mark: int, lateness_ms: int) -> int:
    """Return up to which last ms windows are forgotten at watermark `mark`; at the last one all are."""
    return mark if mark == WATERMARK_MAX else max(WATERMARK_MIN, mark - lateness_ms)


def horizons(marks: Int64s, lateness_ms: int) -> Int64s:
    """Return the `horizon` of each watermark."""
    kept = np.maximum(marks, WATERMARK_MIN + lateness_ms) - lateness_ms
    return np.where(marks == WATERMARK_MAX, WATERMARK_MAX, kept)
