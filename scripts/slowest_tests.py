"""Lists the slowest tests of several runs in one table: seconds, run and test.

    scripts/slowest_tests.py [--count 20] RESULTS.xml...
    scripts/slowest_tests.py --files RESULTS.xml...       # lines for tests/slow_files.txt

The files are those that `pytest --junitxml` writes; each is named after its run. A file that is absent or was
not written to its end, is left out. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path


def timed(results: Iterable[Path]) -> Iterator[tuple[float, str, str]]:
    """Seconds, run and test of every test."""
    for path in results:
        with suppress(OSError, ElementTree.ParseError):
            for case in ElementTree.parse(path).iter("testcase"):
                name = f"{case.get('classname')}::{case.get('name')}"
                yield float(case.get("time", 0)), path.stem, name


def file_of(name: str) -> str:
    """Return the file of a test, which is in a module, and perhaps in a class of it."""
    module = re.match(r"(?:\w+\.)*test_\w+", name.partition("::")[0])
    return f"{module[0].replace('.', '/')}.py" if module else name


def by_files(found: Iterable[tuple[float, str, str]]) -> list[tuple[float, str]]:
    """Return the seconds of all tests of each file, the slowest file first."""
    files: defaultdict[str, float] = defaultdict(float)
    for seconds, _, name in found:
        files[file_of(name)] += seconds
    return sorted(((seconds, path) for path, seconds in files.items()), reverse=True)


def main(arguments: Sequence[str]) -> int:
    """Print the list."""
    parser = argparse.ArgumentParser(description="The slowest tests of several runs.")
    parser.add_argument("results", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--files", action="store_true", help="seconds of the files that take 25 or more")
    options = parser.parse_args(arguments)
    found = sorted(timed(options.results), reverse=True)
    if options.files:
        print(*(f"{seconds:.0f} {path}" for seconds, path in by_files(found) if seconds >= 25), sep="\n")
        return 0
    for seconds, run, name in found[: options.count]:
        print(f"{seconds:7.1f} s  {run:11} {name}")
    print(f"{len(found)} tests in {sum(seconds for seconds, _, _ in found) / 60:.1f} minutes of tests")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
