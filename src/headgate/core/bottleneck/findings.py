"""What holds a job up: the kind of the cause, where it is, and a sentence with figures and advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """The kinds of causes for which a job is slower than it could be."""

    FUNCTION = "slow function"
    SKEW = "skew"
    SINK = "slow sink"
    CREDIT = "small credit"
    SERIALIZATION = "serialization"
    STATE = "state on disk"
    ALIGNMENT = "alignment"
    SOURCE = "slow source"
    GARBAGE = "garbage collection"
    WORKER = "slow worker"
    BUSY = "busy"  # a worker has no time left, and none of the other kinds is known to be the cause


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a job is slower than it could be, with `text` for people; None: not of that kind."""

    kind: Kind
    text: str
    vertex: int | None = None
    uid: str | None = None  # of the operator
    worker: int | None = None
    line: str | None = None  # the function of the program, with file and line
    figures: Mapping[str, float] = field(default_factory=dict)
