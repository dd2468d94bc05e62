"""A function that fails once, with a secret in what it raises: for tests of what a job tells others of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import headgate as hg

SECRET = "planted-secret"
failed: list[int] = []
"""The record on which it failed; a test empties it before its job."""


class Counting(hg.KeyedProcessFunction[int, int, Any]):
    """Counts, and fails once."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[Any]:
        self.count.value += 1
        if record == 150 and not failed:
            failed.append(record)
            raise ValueError(f"no {record}, {SECRET}")
        yield record
