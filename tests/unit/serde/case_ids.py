"""Names of parametrised cases that are the same in every process, so that several can share the tests."""

from __future__ import annotations

import re


def case_id(case: object, limit: int = 50) -> str:
    """The case as text, without addresses of objects."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(case))[:limit]
