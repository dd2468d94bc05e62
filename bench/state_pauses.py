"""How long the heap's loop stands still for a checkpoint while updates go on; see `bench.state_heap`.

python -m bench.state_pauses KEYS COUNT
"""

from __future__ import annotations

import sys

from bench.jobs.support import result
from bench.state_heap import snapshots


def main() -> None:
    """The program."""
    result(**snapshots("int", int(sys.argv[1]), int(sys.argv[2])))


if __name__ == "__main__":
    main()
