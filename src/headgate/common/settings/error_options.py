"""Options for records on which functions of the program fail."""

from __future__ import annotations

from typing import Final

from headgate.common.settings.config_option import ConfigOption, Integer, Number, optional_text

QUARANTINE_DIRECTORY: Final = optional_text(
    "quarantine.dir",
    "Directory under which records that are quarantined go, where the program does not read them itself; "
    "unset: the folder quarantine of execution.checkpointing.dir.",
)
QUARANTINE_RECORDS: Final = ConfigOption(
    "quarantine.max-records",
    Integer(0),
    1_000,
    "How many records of one subtask may be skipped or quarantined from one checkpoint to the next; one more "
    "fails the attempt, as so many are a mistake of the program.",
)
QUARANTINE_SHARE: Final = ConfigOption(
    "quarantine.max-share",
    Number(0.0),
    0.01,
    "Which share of a subtask's records may be skipped or quarantined from one checkpoint to the next, once "
    "1,000 have come; one more fails the attempt.",
)
