"""Files that others may read while they are made: under their name they are whole, or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A file beside another one, whose name it takes at the end; it goes when something fails.

    Writing into the other one itself would change what its readers have open, and all its hard links.

    Example:
        >>> target = Path(tempfile.mkdtemp()) / "job.zip"
        >>> with whole(target) as made:
        ...     _ = made.write_text("x"), target.exists()
        >>> [path.name for path in target.parent.iterdir()]
        ['job.zip']
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    os.close(descriptor)
    made = Path(name)
    try:
        yield made
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)
