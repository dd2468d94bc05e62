"""Jobs that begin at once in one process, each in a thread, find the namespace's pickler complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, threading
from headgate.usercode.namespaces.code import NamespaceCode
from headgate.usercode.namespaces.loader import Namespace

sys.setswitchinterval(1e-6)
codes = [NamespaceCode(Namespace(f"job {number}", [sys.argv[1]]), ()) for number in range(20)]
together, found = threading.Barrier(4), []

def look():
    for code in codes:
        together.wait()
        found.append(hasattr(code.pickler(), "Pickler"))

threads = [threading.Thread(target=look) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found), all(found))
"""


def test_it_is_complete_in_each(tmp_path: Path) -> None:
    """Whichever of four threads asks first, in twenty namespaces."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["80", "True"]
