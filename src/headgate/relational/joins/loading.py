"""How the rows of a table that is looked up get into each subtask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from headgate.common.retries import Retries


@dataclass(frozen=True, slots=True)
class Loading:
    """How the rows of a lookup get into each subtask.

    Attributes:
        function: returns them, as a ``pyarrow.Table`` with the columns `schema` at least.
        refresh_ms: after so many ms it is called again; None: never.
        retries: how often a call is repeated that raised one of `on`, before the job fails.
        on: exceptions; any other fails the job at once.
        site: where the program has the function looked up, "file:line".
    """

    function: Callable[[], object]
    schema: pa.Schema
    refresh_ms: int | None
    retries: Retries
    on: tuple[type[BaseException], ...]
    site: str
