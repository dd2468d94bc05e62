"""Changelogs as JSON lines: each line is a change, with its row."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from typing_extensions import override

from headgate.api.sink import T
from headgate.common.errors import UsageError
from headgate.connectors.files.folder_layout import Layout
from headgate.connectors.files.part_file import PartFile
from headgate.connectors.files.sink import ROLL_BYTES_DEFAULT, FilesSink, IfExists
from headgate.relational.changes import CHANGE, SIGNS, Change

if TYPE_CHECKING:
    import pyarrow as pa

    from headgate.connectors.files.part_writers import PartWriter

Style: TypeAlias = Literal["signs", "debezium"]

_STYLES: Final = ("signs", "debezium")


def changelog_sink(
    path: str | os.PathLike[str],
    *,
    style: Style = "signs",
    roll_bytes: int = ROLL_BYTES_DEFAULT,
    if_exists: IfExists = "append",
) -> FilesSink[T]:
    """Return a sink of changes as JSON lines in files ``part-*.jsonl`` of a directory, exactly once.

    Args:
        path: the output directory, on a disk that the driver and all workers share.
        style: "signs": the row's columns after ``op``, which is "+I" where a row comes, "-U" and "+U" for old
            and new values of one that is corrected, "-D" where it goes. "debezium": ``op`` is "c", "u" or
            "d", and ``before`` and ``after`` have the row, null where there is none.
        roll_bytes: as for :func:`json_sink`.
        if_exists: as for :func:`json_sink`.

    Raises:
        UsageError: an argument is out of its bounds.
    """
    if style not in _STYLES:
        raise UsageError(f"the changelog sink got style={style!r}; expected one of {', '.join(_STYLES)}")
    return FilesSink(path, ChangelogFormat(style), roll_bytes, if_exists, Layout())


class ChangelogFormat:
    """JSON lines of changes as the format of a sink's files."""

    name, suffix = "changelog", ".jsonl"

    def __init__(self, style: Style) -> None:
        self._style = style

    def opener(self) -> Callable[[PartFile], PartWriter]:
        from headgate.connectors.files.part_writers import JsonPartWriter

        lines = _with_signs if self._style == "signs" else _with_both

        class ChangelogPartWriter(JsonPartWriter):
            @override
            def write(self, records: list[Any] | pa.RecordBatch) -> None:
                rows = records.to_pylist() if hasattr(records, "to_pylist") else map(dict, records)
                super().write(list(lines(rows)))

        return ChangelogPartWriter


def _with_signs(rows: Any) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield {"op": SIGNS[row.pop(CHANGE)], **row}


def _with_both(rows: Any) -> Iterator[dict[str, Any]]:
    before: dict[str, Any] | None = None
    for row in rows:
        change = Change(row.pop(CHANGE))
        # Old values stand directly before the new ones, unless a filter has left out either.
        if before is not None and change is not Change.UPDATE_AFTER:
            yield {"op": "d", "before": before, "after": None}
            before = None
        match change:
            case Change.UPDATE_BEFORE:
                before = row
            case Change.DELETE:
                yield {"op": "d", "before": row, "after": None}
            case _:
                yield {"op": "c" if before is None else "u", "before": before, "after": row}
                before = None
    if before is not None:
        yield {"op": "d", "before": before, "after": None}
