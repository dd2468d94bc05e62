"""Names of the keyed states in which an operator holds records; `api.held_states` declares them."""

from __future__ import annotations

from typing import Final

# No attribute of a function can be named so.
UNDER: Final = "held-under"
"""Per held key: its release, the number of its first record, the one after its last, and its event time."""
RECORDS: Final = "held-records"
"""Per held key: number -> record, the form that it is stored in, event time, watermark, and when it came."""
TIMERS: Final = "held-timers"
"""Per held key: (domain, time in ms) of timers that were due; the domains are below."""

HELD: Final = (UNDER, RECORDS, TIMERS)
"""All of these states. Calls of the function do not change them, so nothing of them is undone."""
