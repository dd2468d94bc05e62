"""The interface of windows that may emit more than once, which extends that of all windows."""

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
    """Windows that emit again; `places[i]` is the index of the late row that made row i of the table emit."""

    windows: Ended
    places: Int64s


class Taken(NamedTuple):
    """The result of adding late rows: windows that emit again, and a mask of rows too late for any window."""

    fired: list[Again]
    dropped: NDArray[np.bool_]


class PatientWindows(KeptWindows, Protocol):
    """Kept windows with allowed lateness, whose accumulators can also be had before their end."""

    @property
    def forgotten(self) -> int:
        """Last ms (since 1970) of the newest windows that are dropped, so that they take no late rows."""

    def marks_of(self, rows: pa.Table, marks: Int64s) -> Int64s:
        """Return `marks`, each row's watermark, raised to that of the row's key group where it is ahead."""

    def may_be_late(self, rows: pa.Table, marks: Int64s) -> NDArray[np.bool_]:
        """Return a mask of rows that may have come, by `marks`, after the end of one of their windows."""

    def add_late(self, rows: pa.Table, marks: Int64s) -> Taken:
        """Add rows for which `may_be_late` is true, in order; return what emits again and what is dropped."""

    def open_now(self, touched: pa.Table) -> list[Ended]:
        """Return the present accumulators of open windows that have the keys and panes of `touched`."""


def horizon(mark: int, lateness_ms: int) -> int:
    """Return the last ms up to which windows are dropped at watermark `mark`; at WATERMARK_MAX all are."""
    return mark if mark == WATERMARK_MAX else max(WATERMARK_MIN, mark - lateness_ms)


def horizons(marks: Int64s, lateness_ms: int) -> Int64s:
    """Return for each watermark the last ms up to which windows are dropped, as :func:`horizon` does."""
    kept = np.maximum(marks, WATERMARK_MIN + lateness_ms) - lateness_ms
    return np.where(marks == WATERMARK_MAX, WATERMARK_MAX, kept)
