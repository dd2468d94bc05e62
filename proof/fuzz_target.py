"""What is fuzzed: one function that takes any bytes and may raise only what it declares; and its verdicts."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = str(Path(__file__).parents[1] / "src")

_MEMORY_WORDS = ("malloc of size", "realloc of size")
"""How Arrow says that there is not so much memory."""


@dataclass(frozen=True)
class Target:
    """One kind of stored bytes and its reader.

    Attributes:
        name: what is read.
        declared: the exceptions that the reader documents for bytes that are not right.
        seeds: bytes that are right.
        read: reads bytes, whatever they are.
    """

    name: str
    declared: tuple[type[Exception], ...]
    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes], Any]


def attempt(target: Target, data: bytes) -> tuple[bool, str | None]:
    """Whether the bytes were accepted, and what is wrong with how they were not."""
    try:
        target.read(data)
    except target.declared as error:
        return False, f"asks for too much memory: {_place(error)}" if _for_memory(error) else None
    except Exception as error:  # the very question
        return False, f"{type(error).__name__} at {_place(error)}: {error!s:.120}"
    return True, None


def _for_memory(error: BaseException) -> bool:
    """Whether the refusal was made of an allocation that failed: with more memory it would have been made."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, MemoryError) or any(words in str(at) for words in _MEMORY_WORDS):
            return True
        at = at.__cause__ or at.__context__
    return False


def _place(error: BaseException) -> str:
    """The innermost line of ours on the way."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(SOURCE)] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].name}"
