"""What an entry of the comparison is: one query, with what every engine is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Lacking:
    """Why an engine is not asked.

    Attributes:
        reason: for the footnote.
        cannot: whether the engine cannot answer; False: nobody has written the query for it here.
    """

    reason: str
    cannot: bool = True


Entry = str | Lacking


@dataclass(frozen=True, slots=True)
class Query:
    """One line of the comparison.

    Attributes:
        name: as on the command line.
        title: what it does, in a few words.
        flink: one SELECT.
        spark: one SELECT, or "python:NAME" for a function of `bench/peers/spark_query.py`.
        bytewax: the name of a step in `bench/peers/bytewax_query_flow.py`.
        pathway: the name of a step in `bench/peers/pathway_query.py`.
        tables: what it reads.
        timed: whether it needs event time; engines get no watermark otherwise.
        window_end: expression of DuckDB for the end of a row's window, over the answer's columns with times
            in microseconds; None if rows belong to no window.
        counted: the column of counts or times by whose sum an updating engine sees that its answer is
            complete.
        updating: whether rows of the answer are corrected as more events come; the last state is compared.
        key: with `updating`, the columns of which an engine that tells only new rows replaces all rows
            with equal values.
    """

    name: str
    title: str
    flink: Entry
    spark: Entry
    bytewax: Entry
    pathway: Entry
    tables: tuple[str, ...] = ("bid",)
    timed: bool = False
    window_end: str | None = None
    counted: str | None = None
    updating: bool = False
    key: tuple[str, ...] = ()

    @property
    def has_state(self) -> bool:
        """Whether anything is kept between events."""
        return self.timed or self.counted is not None or self.updating or len(self.tables) > 1


NO_DECIMAL: Final = Lacking("Pathway has no decimal numbers")
NOT_WRITTEN: Final = Lacking("not written for this engine here", cannot=False)
