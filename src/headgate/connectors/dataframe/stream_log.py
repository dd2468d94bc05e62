"""Copies of a Structured Streaming query's log: taken for checkpoints, and laid out for a query that resumes.

Spark writes ``offsets/n`` before it runs batch n, and ``commits/n`` after it; sources keep what they have
seen in ``sources/i``. Spark itself repeats only its last uncommitted batch. With a copy of the log at batch
n, and a commit of n, a query in a fresh folder begins with batch n + 1, however long ago that was.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from headgate.common.files.durable import open_new, read_bytes
from headgate.common.files.permissions import make_folder
from headgate.common.files.stored_paths import inside
from headgate.common.plain_data import Plain

Log = dict[str, bytes]  # path below the query's folder -> the file's bytes, compressed

_METADATA, _OFFSETS, _COMMITS, _SOURCES = "metadata", "offsets", "commits", "sources"
_COMPACT: Final = ".compact"
_FIRST_COMMIT: Final = b'v1\n{"nextBatchWatermarkMs":0}'  # what Spark writes for a query without event time
_NAME: Final = re.compile(
    r"metadata|(?:offsets|commits)/[0-9]{1,19}|sources/[0-9]{1,9}/[0-9A-Za-z_-][0-9A-Za-z._-]{0,200}"
)
_ENTRY_MAX: Final = 1 << 28  # bytes of one entry: the names of a million files
_LOG_MAX: Final = 1 << 30  # bytes of all entries of a log
_PIECE: Final = 1 << 20


def picture(folder: Path, epoch: int) -> Log:
    """Return a compressed copy of the log files with which a new query resumes after `epoch`.

    The folder is the query's checkpoint location, while the query waits in batch `epoch`, -1 before the
    first: nothing later is planned.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as made:
        ...     lay_out(Path(made), {"offsets/7": zlib.compress(b"v1")})
        ...     sorted(picture(Path(made), 7))
        ['commits/7', 'offsets/7']
    """
    # Sources last: what Spark writes first must be newer than what it writes then, as after a crash.
    wanted = [f"{_OFFSETS}/{number}" for number in (epoch - 1, epoch) if number >= 0]
    wanted += [f"{_COMMITS}/{epoch - 1}", _METADATA, *_source_entries(folder)]
    found = {name: read_bytes(folder / name) for name in wanted if (folder / name).is_file()}
    if epoch >= 0:
        found[f"{_COMMITS}/{epoch}"] = found.get(f"{_COMMITS}/{epoch - 1}", _FIRST_COMMIT)
    return {name: zlib.compress(data) for name, data in found.items()}


def damage(log: Plain | Mapping[str | bytes, Plain]) -> str | None:
    """Return what is wrong with a stored copy of a log, which anybody may have written; None if nothing is.

    Example:
        >>> damage({"offsets/7": zlib.compress(b"v1")}), damage({"../../.bashrc": b""})
        (None, "it has an entry named '../../.bashrc', which is none of Spark's")
    """
    if not isinstance(log, Mapping):
        return f"its log is a {type(log).__name__}, expected names and bytes"
    total = 0
    for name, data in log.items():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            return f"it has an entry named {name!r:.200}, which is none of Spark's"
        try:
            if not isinstance(data, bytes):
                raise TypeError(f"a bytes-like object is required, not {type(data).__name__!r}")
            size = _unpacked_size(data)
        except (zlib.error, TypeError) as error:
            return f"its entry {name!r} cannot be unpacked: {error}"
        if size is None:
            return f"its entry {name!r} ends early or unpacks to more than {_ENTRY_MAX} bytes"
        total += size
        if total > _LOG_MAX:
            return f"its entries unpack to more than {_LOG_MAX} bytes, {name!r} the first beyond"
    return None


def _unpacked_size(data: bytes) -> int | None:
    # It is unpacked piece by piece, since nobody vouches for its size.
    unpacker = zlib.decompressobj()
    size = 0
    while True:
        piece = unpacker.decompress(data, _PIECE)
        data = unpacker.unconsumed_tail
        size += len(piece)
        if size > _ENTRY_MAX or not (piece or unpacker.eof):
            return None
        if unpacker.eof:
            return size


def lay_out(folder: Path, log: Mapping[str, bytes]) -> None:
    """Write a copied log's files into a query's fresh folder; the caller has checked `log` by `damage`."""
    for name, data in log.items():
        target = inside(folder, name, "an entry of a Spark log")
        make_folder(target.parent)
        with open_new(target) as file:
            file.write(zlib.decompress(data))


def planned_ms(folder: Path, epoch: int) -> int | None:
    """Return when Spark planned batch `epoch` (wall clock, ms); None if it is not in the log in `folder`."""
    try:
        facts = json.loads((folder / _OFFSETS / str(epoch)).read_text().splitlines()[1])
        return int(facts["batchTimestampMs"])
    except (OSError, LookupError, ValueError):
        return None


def offsets_text(log: Mapping[str, bytes], epoch: int) -> str:
    r"""Return the sources' end offsets of a batch as text, as Spark writes them into its log, for messages.

    Example:
        >>> offsets_text({"offsets/3": zlib.compress(b'v1\n{"conf":{}}\n{"logOffset":3}')}, 3)
        '{"logOffset":3}'
    """
    stored = log.get(f"{_OFFSETS}/{epoch}")
    lines = [] if stored is None else zlib.decompress(stored).decode("utf-8", "replace").splitlines()
    return "; ".join(lines[2:]) or "none"


def files_of_later_epochs(lineage: Path, log: Mapping[str, bytes]) -> list[str]:
    """Return URIs of files that queries in the folder `lineage` have read, except those that `log` lists."""
    before = {uri for name, data in log.items() for uri in listed(name, zlib.decompress(data))}
    later: set[str] = set()
    for query in lineage.iterdir() if lineage.is_dir() else ():
        for name in _source_entries(query):
            with suppress(FileNotFoundError):  # a running query of the lineage has compacted it just now
                later.update(listed(name, read_bytes(query / name)))
    return sorted(later - before)


def missing_locally(uris: Iterable[str]) -> list[str]:
    """Return the paths of the ``file:`` URIs whose file does not exist.

    Example:
        >>> missing_locally(["file:///no/such%20file", "s3a://bucket/key"])
        ['/no/such file']
    """
    paths = [unquote(urlsplit(uri).path) for uri in uris if uri.startswith("file:")]
    return [path for path in paths if not os.path.lexists(path)]


def _source_entries(folder: Path) -> list[str]:
    # The newest compacted entry holds all earlier ones.
    found = []
    for source in sorted((folder / _SOURCES).glob("*")):
        names = [path.name for path in source.iterdir() if path.is_file() and not path.name.startswith(".")]
        compacted = max((_number(name) for name in names if name.endswith(_COMPACT)), default=-1)
        kept = [n for n in names if _number(n) > compacted or n == f"{compacted}{_COMPACT}"]
        found += [f"{_SOURCES}/{source.name}/{name}" for name in sorted(kept, key=_number)]
    return found


def _number(name: str) -> int:
    # Other names get a very large number, so that they stay.
    text = name.removesuffix(_COMPACT)
    return int(text) if text.isascii() and text.isdigit() else 1 << 62


def listed(name: str, data: bytes) -> Iterator[str]:
    """Yield the file URIs in a log entry of this name and content; only file sources' entries have any."""
    if not name.startswith(f"{_SOURCES}/"):
        return
    for text in data.decode("utf-8", "replace").splitlines():
        if text.startswith("{"):
            with suppress(ValueError):
                path = json.loads(text).get("path")
                if isinstance(path, str):
                    yield path
