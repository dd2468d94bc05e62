"""The folders in which Python looks for the framework's modules."""

from __future__ import annotations

import sys


def framework_path() -> list[str]:
    """Return `sys.path` without folders of isolated user code, also when called in an isolated namespace.

    Example:
        >>> framework_path() == list(sys.path)
        True
    """
    of_framework = getattr(sys.path, "of_framework", None)
    return list(sys.path) if of_framework is None else of_framework()
