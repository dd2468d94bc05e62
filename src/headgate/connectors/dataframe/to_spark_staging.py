"""The folder in which `to_spark()` keeps rows until their epoch is written: Parquet files, and the journals.

::

  _pending/<job>+<uid>/part-...    rows that a snapshot holds, or will
  journal/<lineage>+<uid>/         which epochs were written; see to_spark_log.py
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict
from urllib.parse import quote

from headgate.api.sink import Fork, Sink, SinkCommitter, SinkCommitterContext
from headgate.common.errors import OperatingError, StorageError
from headgate.common.files.durable import checksum, unlink
from headgate.common.files.stored_paths import inside, made_folder
from headgate.common.registry import Kind, load
from headgate.connectors.dataframe.connector import unprepared
from headgate.connectors.dataframe.staged_files import TO_SPARK

if TYPE_CHECKING:
    import pyarrow as pa

_ITSELF: Final = re.compile("")
_PENDING: Final = re.compile(r"_pending/[^/]+/[^/]+", re.DOTALL)
_ROWS: Final = "a file of staged rows"


class StagedRows(TypedDict):
    """Committable of `to_spark()`: a file of staged rows, the attempt that made it, its first snapshot."""

    root: str  # the staging folder
    pending: str  # name of the file, relative to it
    size: int  # bytes
    crc32: int  # of all bytes
    job: str  # its id
    generation: int  # of the job's driver
    attempt: int  # the deployment
    checkpoint: int  # id of that snapshot


class Staging:
    """The driver's access to a staging folder: paths of staged rows, and what keeps or removes them.

    A committable names the folder of its rows. So a savepoint can be restored with another folder, and can be
    released where none is known.

    `folder` is on a disk that the driver and all workers share; None where it is not known.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._committers: dict[str, SinkCommitter] = {}
        self._context: SinkCommitterContext | None = None

    @property
    def known(self) -> bool:
        return self._folder is not None

    @property
    def root(self) -> str:
        """The staging folder; UsageError if it is not known."""
        if self._folder is None:
            raise unprepared("to_spark")
        return self._folder

    def begin(self, context: SinkCommitterContext) -> None:
        self._context = context

    def journal(self, lineage: str, uid: str) -> Path:
        return Path(self.root, "journal", f"{quote(lineage, safe='')}+{quote(uid, safe='')}")

    def hold(self, committables: Sequence[StagedRows], savepoint: Fork) -> None:
        for root, ready in self._by_root(committables).items():
            self._files(root).hold(ready, savepoint)

    def release(self, committables: Sequence[StagedRows], savepoint: Fork) -> None:
        for root, ready in self._by_root(committables).items():
            self._files(root).release(ready, savepoint)

    def abandon(self, committed_through: Sequence[StagedRows]) -> None:
        self._files(self.root).abandon(committed_through)

    def remove(self, committables: Iterable[StagedRows]) -> None:
        """Remove files of rows that the caller knows are written, except those that a savepoint holds.
        Those that are gone already are skipped; OSError if a file cannot be removed.
        """
        for ready in committables:
            path = _path(self.root, ready)
            if not any(path.parent.glob(f"{path.name}*.held")):
                unlink(path, missing_ok=True)

    def _by_root(self, committables: Sequence[StagedRows]) -> dict[str, list[StagedRows]]:
        found: dict[str, list[StagedRows]] = defaultdict(list)
        for ready in committables:
            root = ready["root"]
            found[root if root == self._folder else str(_elsewhere(root))].append(ready)
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
    """Return a Parquet sink in the staging folder `root`, whose pending files are the staged rows.
    Its `commit` is not to be called. `schema` None: each writer takes that of its first batch.
    """
    made = load(Kind.CONNECTOR, "parquet_sink")(root, schema=schema)
    made.format.verb = "to_spark"
    sink: Sink = made
    return sink


def verified_paths(root: str, committables: Sequence[StagedRows], checkpoint: int) -> list[str]:
    """Return the paths of files of staged rows, each read to check its size and CRC-32, in order.
    StorageError if one cannot be read. OperatingError if one is gone or damaged; its message names
    `checkpoint`, the id of the first snapshot that has the rows.
    """
    paths = []
    for ready in committables:
        path = _path(root, ready)
        try:
            found = checksum(path)
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


def _path(root: str, ready: StagedRows) -> Path:
    # Where the rows are now: in this folder, or in the one in which they were staged.
    here = inside(root, ready["pending"], _ROWS, _PENDING)
    if here.exists() or ready["root"] == root:
        return here
    return inside(_elsewhere(ready["root"]), ready["pending"], _ROWS, _PENDING)


def _elsewhere(root: str) -> Path:
    return made_folder(root, TO_SPARK, _ITSELF, "a folder of rows for Spark")
