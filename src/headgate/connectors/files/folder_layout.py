"""How a files sink arranges its files: folders of partitions, how many are open, a marker at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headgate.common.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from headgate.connectors.files.partitions import Partitions

OPEN_FILES_DEFAULT: Final = 64
"""Files that a subtask has open; a Parquet file that is open holds up to 16 MiB of rows in memory."""


@dataclass(frozen=True)
class Layout:
    """Arguments of a files sink that say where its files are; UsageError for what is out of bounds.

    Attributes:
        partition_by: columns by whose values records go to folders, outermost first; empty: no folders.
        open_files: how many files a subtask has open at most.
        success_markers: whether `_SUCCESS` is written at the end of a job.
    """

    partition_by: str | Sequence[str] = ()
    open_files: int = OPEN_FILES_DEFAULT
    success_markers: bool = False

    def __post_init__(self) -> None:
        names = self.names
        wrong = [name for name in names if str(name) != name or not name or name.startswith(".")]
        if wrong or len(set(names)) != len(names):
            raise UsageError(
                f"the files sink got partition_by={self.partition_by!r}; expected names of columns, each "
                "once, that do not begin with a dot"
            )
        if self.open_files < 1:
            raise UsageError(f"the files sink got open_files={self.open_files}; expected 1 or more")

    @property
    def names(self) -> tuple[str, ...]:
        return (self.partition_by,) if isinstance(self.partition_by, str) else tuple(self.partition_by)

    def partitions(self) -> Partitions | None:
        """Return the object that divides records by folder; None if there are no folders."""
        if not self.names:
            return None
        from headgate.connectors.files.partitions import Partitions  # it loads Arrow

        return Partitions(self.names)

    def in_files(self, schema: pa.Schema) -> pa.Schema:
        """Return the records' `schema` without the columns that only folders' names hold."""
        for name in self.names:
            if name in schema.names:
                schema = schema.remove(schema.get_field_index(name))
        return schema
