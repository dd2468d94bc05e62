"""How the rows of a table that is looked up get into each subtask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Loading:
    """How the rows of a lookup get into each subtask.

    Attributes:
        function: returns them, as a ``pyarrow.Table`` with the columns `schema` at least.
        refresh_ms: after so many ms it is called again; None: never.
        retries: how often a call that raises is repeated before the job fails.
        site: where the program has the function looked up, "file:line".
    """

    function: Callable[[], object]
    schema: pa.Schema
    refresh_ms: int | None
    retries: int
    site: str
