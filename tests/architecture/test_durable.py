"""What lasts is written, moved and checked by functions that no program can replace under us."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from source_tree import PACKAGE

BARE = re.compile(
    r"\b(zlib\.crc32|hashlib\.sha256|from zlib import|from hashlib import"
    r"|os\.(fsync|rename|replace|link|unlink|remove|open)\("
    r")"
)

ALLOWED = {
    "common/files/durable.py": "binds them",
    "common/process/children.py": "a child that was forked writes nothing that lasts",
    "deploy/spark/user_code/shipped_files.py": "a copy of what is shipped, with its hash beside it",
    "relational/functions/hashes.py": "the functions of that name that programs call; nothing that lasts",
    "runtime/protocol/frames.py": "a comment",
}
FOLDERS_ALLOWED = ("cli/", "testing/")
"""Commands run no user code beside themselves; test kits are the tests' own."""


def test_bare_functions_are_used_by_nobody_else() -> None:
    """See `common/files/durable.py`; a place that needs them all the same is listed with the reason."""
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        lines = [line for line in path.read_text().splitlines() if ">>>" not in line and "..." not in line]
        uses = [line.strip() for line in lines if BARE.search(line)]
        if uses and name not in ALLOWED and not name.startswith(FOLDERS_ALLOWED):
            found[name] = uses
    assert found == {}


SYNCING = re.compile(r"\bfsync\b|\bO_EXCL\b|\bmkstemp\b|\bopen_new\(")
SYNCED_BY_HAND = {
    "common/files/durable.py": "binds the functions",
    "common/files/durable_file.py": "the helper itself",
    "runtime/job/black_box.py": "memory that a process leaves behind when it dies; no power cut asks for it",
    "connectors/dataframe/stream_log.py": "a log for Spark in a fresh folder, which need not survive",
}


def test_files_are_made_by_one_helper() -> None:
    """Only `common/files/durable_file.py` writes, syncs and names files, and syncs their folder."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if SYNCING.search(path.read_text())
    }
    mine = {name for name in found if not name.startswith(FOLDERS_ALLOWED)}
    assert mine == set(SYNCED_BY_HAND)


@pytest.mark.parametrize("name", ALLOWED)
def test_exceptions_are_there(name: str) -> None:
    """One that is gone leaves the list."""
    assert Path(PACKAGE, name).exists()
