"""The formats of savepoints that the command line offers; any other is refused before a job is asked."""

from __future__ import annotations

from enum import StrEnum


class SavepointFormat(StrEnum):
    """What stands behind ``--format``."""

    CANONICAL = "canonical"
    NATIVE = "native"
