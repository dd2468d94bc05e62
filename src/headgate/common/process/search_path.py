"""Where Python looks for the framework's modules."""

from __future__ import annotations

import sys


def framework_path() -> list[str]:
    """`sys.path` without what belongs to user code alone: in an isolated namespace it is the namespace's.

    Example:
        >>> framework_path() == list(sys.path)
        True
    """
    of_framework = getattr(sys.path, "of_framework", None)
    return list(sys.path) if of_framework is None else of_framework()
