"""The Nexmark benchmark's input and its right answers: generated events, files of them, queries in DuckDB.

The streaming form of the queries is in the programs of `examples/nexmark`; nothing in here runs a job.
"""

from headgate.nexmark.dataset import TABLES, Dataset, FileFormat, open_files
from headgate.nexmark.files import generate_files
from headgate.nexmark.generator import (
    AUCTIONS,
    BIDS,
    PERSONS,
    SCHEMAS,
    Events,
    NexmarkSettings,
    event_batches,
    events,
)
from headgate.nexmark.reference import ANSWERS, ordered, q0, q1, q2, q5, q7, q8, q10, q11, q12, q14, q21, q22

__all__ = [
    "NexmarkSettings", "Events", "events", "event_batches",
    "SCHEMAS", "PERSONS", "AUCTIONS", "BIDS",
    "TABLES", "Dataset", "FileFormat", "generate_files", "open_files",
    "ANSWERS", "ordered", "q0", "q1", "q2", "q5", "q7", "q8", "q10", "q11", "q12", "q14", "q21", "q22",
]  # fmt: skip
