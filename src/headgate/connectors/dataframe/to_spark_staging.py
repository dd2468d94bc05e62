"""The folder in which rows wait for their epoch: pending files of the Parquet sink, and the journals.

::

    _pending/<job>+<uid>/part-...    rows that a snapshot holds, or will
    journal/<line>+<uid>/            which epochs were written; see to_spark_log.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from headgate.api.sink import Fork, Sink, SinkCommitter, SinkCommitterContext
from headgate.api.source import Plain
from headgate.common.errors import OperatingError, StorageError
from headgate.common.files.durable import crc32, open_read, unlink
from headgate.common.files.stored_paths import inside, made_folder
from headgate.common.registry import Kind, load
from headgate.connectors.dataframe.connector import unprepared
from headgate.connectors.dataframe.staged_files import TO_SPARK

if TYPE_CHECKING:
    import pyarrow as pa

_ITSELF: Final = re.compile("")
_PENDING: Final = re.compile(r"_pending/[^/]+/[^/]+", re.DOTALL)
_ROWS: Final = "a file of staged rows"


class Staging:
    """The driver's side of a staging folder.

    A committable says where its rows were staged. So a savepoint can be restored with another
    folder, and can be released where none is known.

    Args:
        folder: on a disk that the driver and all workers share; None where it is not known.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._committers: dict[str, SinkCommitter] = {}
        self._context: SinkCommitterContext | None = None

    @property
    def known(self) -> bool:
        """Whether the folder is."""
        return self._folder is not None

    @property
    def root(self) -> str:
        """The folder.

        Raises:
            UsageError: it is not known.
        """
        if self._folder is None:
            raise unprepared("to_spark")
        return self._folder

    def begin(self, context: SinkCommitterContext) -> None:
        """The job begins."""
        self._context = context

    def journal(self, line: str, uid: str) -> Path:
        """Where the journal of a line is."""
        return Path(self.root, "journal", f"{quote(line, safe='')}+{quote(uid, safe='')}")

    def hold(self, committables: Sequence[Plain], savepoint: Fork) -> None:
        """See `SinkCommitter.hold`."""
        for root, ready in self._by_root(committables).items():
            self._files(root).hold(ready, savepoint)

    def release(self, committables: Sequence[Plain], savepoint: Fork) -> None:
        """See `SinkCommitter.release`."""
        for root, ready in self._by_root(committables).items():
            self._files(root).release(ready, savepoint)

    def abandon(self, committed_through: Sequence[Plain]) -> None:
        """See `SinkCommitter.abandon`."""
        self._files(self.root).abandon(committed_through)

    def remove(self, committables: Iterable[Plain]) -> None:
        """Rows that were written go, unless a savepoint holds them."""
        for ready in committables:
            path = _path(self.root, ready)
            if not any(path.parent.glob(f"{path.name}*.held")):
                unlink(path, missing_ok=True)

    def _by_root(self, committables: Sequence[Plain]) -> dict[str, list[Plain]]:
        found: dict[str, list[Plain]] = {}
        for ready in committables:
            root = ready["root"]
            found.setdefault(root if root == self._folder else str(_elsewhere(root)), []).append(ready)
        return found

    def _files(self, root: str) -> SinkCommitter:
        if root not in self._committers:
            made = staged_parquet(root, None).create_committer()
            assert made is not None, "files are published by a committer"
            if self._context is not None:
                made.begin(self._context)
            self._committers[root] = made
        return self._committers[root]


def staged_parquet(root: str, schema: pa.Schema | None) -> Sink:
    """The sink whose pending files are the staged rows; it never publishes one."""
    made = load(Kind.CONNECTOR, "parquet_sink")(root, schema=schema)
    made.format.verb = "to_spark"
    sink: Sink = made
    return sink


def verified_paths(root: str, committables: Sequence[Plain], checkpoint: int) -> list[str]:
    """Where the rows are, after they were found to be what was staged.

    Raises:
        OperatingError: a file is gone, or is not byte for byte what a worker wrote.
    """
    paths = []
    for ready in committables:
        path = _path(root, ready)
        try:
            found = _measured(path)
        except FileNotFoundError:
            raise OperatingError(
                f"staged rows {str(path)!r} are gone, but the epoch of checkpoint {checkpoint} is not "
                "written yet; were files removed, or is the staging folder on a disk that not every worker "
                "shares?"
            ) from None
        except OSError as problem:
            raise StorageError(f"cannot read {str(path)!r}: {problem.strerror or problem}") from problem
        expected = (ready["size"], ready["crc32"])
        if found != expected:
            raise OperatingError(
                f"staged rows {str(path)!r} have size, CRC-32 {found}; expected {expected}; the file is "
                f"damaged and the epoch of checkpoint {checkpoint} is not written; put it back from a copy"
            )
        paths.append(str(path))
    return paths


def _path(root: str, ready: Plain) -> Path:
    """Where the rows of a committable are now: the folder may have been moved, or another was chosen."""
    here = inside(root, ready["pending"], _ROWS, _PENDING)
    if here.exists() or ready["root"] == root:
        return here
    return inside(_elsewhere(ready["root"]), ready["pending"], _ROWS, _PENDING)


def _elsewhere(root: Plain) -> Path:
    """A staging folder that is not this program's, as a snapshot names it.

    Raises:
        StrayPathError: it is none.
    """
    return made_folder(root, TO_SPARK, _ITSELF, "a folder of rows for Spark")


def _measured(path: Path) -> tuple[int, int]:
    size = checksum = 0
    with open_read(path) as file:
        while piece := file.read(1 << 20):
            size += len(piece)
            checksum = crc32(piece, checksum)
    return size, checksum
