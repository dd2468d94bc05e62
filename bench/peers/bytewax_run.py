"""Runs `bytewax_flow.py` as two processes, with or without recovery, and puts their reports together.

bytewax_run.py FOLDER {recovery,plain}
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile

from bytewax_parts import new_recovery, run


def main() -> None:
    """The program."""
    folder, mode = sys.argv[1:]
    recovery = tempfile.mkdtemp(prefix="bench-bytewax-")
    try:
        options = new_recovery(recovery) if mode == "recovery" else []
        report(run("bytewax_flow:flow", options, {"BENCH_DATA": folder}))
    finally:
        shutil.rmtree(recovery, ignore_errors=True)


def report(parts: list[dict[str, float]]) -> None:
    """From the first source that opened to the last sink that closed."""
    ends = [part for part in parts if "end" in part]
    seconds = max(part["end"] for part in ends) - min(part["start"] for part in parts if "start" in part)
    records = sum(part["records"] for part in ends)
    answer = {
        "records": records,
        "total": sum(part["total"] for part in ends),
        "highest": max(part["highest"] for part in ends),
    }
    facts = {"events": records, "job_s": round(seconds, 3), "events_per_s": round(records / seconds)}
    print("RESULT", json.dumps({**facts, "answer": answer}), flush=True)


if __name__ == "__main__":
    main()
