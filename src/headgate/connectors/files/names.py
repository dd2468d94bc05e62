"""What the files of a sink are called, before and after they are published. Does no I/O."""

from __future__ import annotations

import re
import zlib
from typing import Final

PENDING: Final = "_pending"
"""Below the output directory; readers of directories skip names that begin with ``_``."""

_SHOWN_MAX: Final = 60


def safe(name: str) -> str:
    """A file name for any text; different texts get different names.

    Example:
        >>> safe("out-1"), safe("a/b")
        ('out-1', 'a_b~07f4401c')
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:_SHOWN_MAX]
    if plain == name and name.strip("."):
        return name
    return f"{plain}~{zlib.crc32(name.encode('utf-8', 'surrogatepass')):08x}"


def pending_folder(job: str, uid: str) -> str:
    """The folder below the pending one that belongs to one sink of one job."""
    return f"{safe(job)}+{safe(uid)}"


def part_name(job: str, uid: str, subtask: int, attempt: int, sequence: int, suffix: str) -> str:
    """The final name of a file; no other writer, attempt or job ever uses it.

    Example:
        >>> part_name("job", "out", 1, 2, 0, ".jsonl")
        'part-job+out+00001-2-0.jsonl'
    """
    return f"part-{pending_folder(job, uid)}+{subtask:05d}-{attempt}-{sequence}{suffix}"
