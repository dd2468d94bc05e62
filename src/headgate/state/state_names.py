"""Names of states that a backend keeps beside the declared ones."""

from __future__ import annotations

from typing import Final

STAMPS: Final = "#ttl"
"""Ends or begins the suffix of a state that says when another's entries were written.

No attribute of a class can be named so."""


def is_stamps(name: str) -> bool:
    """Whether a stored state holds stamps. Without a declaration they are skipped: nothing is lost.

    Example:
        >>> is_stamps("count"), is_stamps("count#ttl"), is_stamps("count#ttl-event")
        (False, True, True)
    """
    return STAMPS in name
