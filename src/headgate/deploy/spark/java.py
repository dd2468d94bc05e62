"""Checks that there is a Java that Spark can run on, before Spark is started; the error names the fix."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headgate.common.errors import UsageError

VERSIONS: Final = (17, 21)  # what Spark 4 supports

_FIX: Final = (
    "install it (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless; macOS: brew install "
    "openjdk@17) or point JAVA_HOME at one"
)
_RELEASE: Final = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_VERSION: Final = re.compile(r'version "([^"]+)"')
_ANSWER_S: Final = 20


def check_java(environment: Mapping[str, str] | None = None) -> None:
    """Raise UsageError unless `environment` (None: that of this process) leads to Java 17 or 21."""
    variables = os.environ if environment is None else environment
    java = find_java(variables)
    if java is None:
        where = f"{variables['JAVA_HOME']}/bin" if variables.get("JAVA_HOME") else "the PATH"
        raise UsageError(f"Spark needs Java 17 or 21, and there is no Java in {where}; {_FIX}")
    version = _version_text(java)
    if major_version(version) not in VERSIONS:
        raise UsageError(f"Spark needs Java 17 or 21, and {str(java)!r} is {version or 'no Java'}; {_FIX}")


def find_java(variables: Mapping[str, str]) -> Path | None:
    home = variables.get("JAVA_HOME")
    found = shutil.which(f"{home}/bin/java" if home else "java", path=variables.get("PATH"))
    return None if found is None else Path(found)


def major_version(text: str) -> int:
    """Return the major number of a Java version, such as 17; 0 for a text without one.

    Example:
        >>> major_version("17.0.15"), major_version("1.8.0_402"), major_version("21-ea"), major_version("")
        (17, 8, 21, 0)
    """
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    if numbers[:1] == [1] and len(numbers) > 1:
        return numbers[1]
    return numbers[0] if numbers else 0


def _version_text(java: Path) -> str:
    # The file next to the program spares the start of a JVM.
    try:
        release = (java.resolve().parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    found = _RELEASE.search(release)
    if found is None:
        try:
            asked = subprocess.run(  # noqa: S603 - the program that Spark runs next
                [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        found = _VERSION.search(asked.stderr + asked.stdout)
    return "" if found is None else found[1]
