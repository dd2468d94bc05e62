"""A savepoint of many texts, written without a job; and its reslicing, which tells its peak of memory.

python large_snapshot.py write FOLDER KEYS
python large_snapshot.py reslice FOLDER TARGET GROUPS FORMAT
"""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

from headgate.checkpoint.layout import METADATA
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.format_config import fingerprint
from headgate.offline.migrating import reslice
from headgate.offline.writing import SubtaskWriter
from headgate.serde.resolve import serializer_for
from headgate.state.snapshots import CheckpointMetadata, OperatorSubtaskState
from headgate.state.stored.contract import Chunk, SectionCodec
from headgate.state.stored.regroup import Sorter
from headgate.state.targets import Target

GROUPS, PARALLELISM, PORTION, BYTES_EACH = 128, 2, 10_000, 120


def write(folder: Path, keys: int, written: str) -> None:
    """So many keys, each with a text of a hundred characters."""
    texts = serializer_for(str)
    schema = {"kind": "value", "of": [texts.describe()]}
    form = SectionCodec(texts.decode_many, Target(schema, texts))
    disk = LocalDisk(folder)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        sorter = Sorter(Path(scratch), GROUPS, PARALLELISM, keys * BYTES_EACH)
        for begin in range(0, keys, PORTION):
            mine = list(range(begin, min(keys, begin + PORTION)))
            sorter.add(Chunk("text", form, False, mine, [f"{key:0100d}" for key in mine], 0))
        writer = SubtaskWriter(disk, written, Path(scratch))
        states = [
            OperatorSubtaskState("all", writer.subtask(sorter, "all", "o0", index, GROUPS))
            for index in range(PARALLELISM)
        ]
        sorter.close()
    metadata = CheckpointMetadata(
        "job", "large", 1, 1, 1, 0, GROUPS, fingerprint(), {"all": PARALLELISM}, {"all": states}, {},
        {"all": {"text": schema}}, kind="savepoint", format=written,
    )  # fmt: skip
    disk.create(METADATA, [encode_metadata(metadata)])


def main() -> None:
    """Do what the arguments say."""
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
        return
    _, _, folder, target, groups, form = sys.argv
    made = reslice(folder, target, int(groups), form)
    print(made.entries, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


if __name__ == "__main__":
    main()
