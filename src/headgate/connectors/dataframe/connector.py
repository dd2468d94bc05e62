"""Base class of the DataFrame source and sinks, which need a Spark session before the job starts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from headgate.common.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DataFrameConnector(ABC):
    """A source or sink that exchanges rows with Spark through files in a staging folder.
    An executor with a Spark session calls :meth:`prepare` in the driver before workers start, unless a
    source's rows are staged already for a restored snapshot, and :meth:`finish` of streaming ones at the end.
    """

    # Set before :meth:`prepare`: a folder that outlives the run and may not exist yet; None where nothing
    # does
    lasting_folder: str | None = None
    leaves_output: bool = True  # whether what is staged is what the program gets, and stays behind the job
    verb: str = "from_spark"  # what the program wrote, for messages
    # Attributes that stay in the driver; copies in workers have None in their place
    driver_only: ClassVar[tuple[str, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **dict.fromkeys(self.driver_only)}

    @abstractmethod
    def prepare(self, spark: SparkSession, folder: str) -> None:
        """Do all work that needs the Spark session, such as staging rows, in `folder`.
        The folder, on a disk of all workers, does not exist yet, unless it is of an earlier `to_spark()`.
        """

    def finish(self) -> None:  # noqa: B027 - optional hook
        """Stop what still runs in Spark for this connector, after the job has ended or failed."""


def unprepared(verb: str) -> UsageError:
    """Return the error of API method `verb` for a connector not prepared by an executor that has Spark."""
    return UsageError(f"{verb}() needs a Spark session; run the job with Environment(executor='spark')")


def shown_columns(names: list[str], most: int = 6) -> str:
    """Return the column names joined by commas, for messages; names after the first `most` are left out.

    Example:
        >>> shown_columns(["a", "b", "c"], most=2)
        'a, b, ...'
    """
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def first_line(error: Exception) -> str:
    r"""Return the line of a Spark error that says what went wrong; the complete message may be pages long.

    Example:
        >>> first_line(ValueError("no such table: t\n  at line 1"))
        'no such table: t'
        >>> first_line(ValueError("thrown from the Python worker:\nTraceback\n  f()\nOSError: disk full"))
        'OSError: disk full'
    """
    text: str = getattr(error, "desc", None) or str(error) or type(error).__name__
    lines = [line for line in str(text).strip().splitlines() if line.strip()]
    return lines[-1] if "Python worker" in lines[0] else lines[0]
