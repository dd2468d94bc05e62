"""Nothing of the machine a file was written on stays in the project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest
from source_tree import ROOT, project_files

# Written in parts, so that this file passes its own test.
MACHINE_PATHS = re.compile(
    "|".join([r"(?<![\w.}])/" + "work/", "/tmp/" + "hg", "/tmp/" + "p/", r"(?<!\w)/" + "root/"])
)
REGISTRY_HOSTS = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in [
            ("pypi", "org"), ("pythonhosted", "org"), ("crates", "io"), ("npmjs", "org"), ("npmjs", "com"),
            ("golang", "org"), ("maven", "org"), ("maven", "apache", "org"), ("debian", "org"),
        ]
    )
)  # fmt: skip
PINNED = re.compile(r"[a-z0-9._-]+==[^\s;]+( ; [^\\]+?)?\s+(--hash=sha256:[0-9a-f]{64}\s*)+")
INDEX_OPTIONS = re.compile("--(" + "extra-)?index-" + "url|--find-" + "links|--trusted-" + "host")


@cache
def texts() -> dict[str, str]:
    """Every text file of the project."""
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in project_files()}
    return {name: data.decode("utf-8", errors="replace") for name, data in files.items() if b"\0" not in data}


def lines(pattern: re.Pattern[str]) -> Iterator[str]:
    """Every line in which a pattern is, with its file and number."""
    for name, text in texts().items():
        if pattern.search(text):
            for number, line in enumerate(text.splitlines(), 1):
                if pattern.search(line):
                    yield f"{name}:{number}: {line}"


@pytest.mark.parametrize(
    "pattern",
    [MACHINE_PATHS, REGISTRY_HOSTS],
    ids=["paths of one machine", "hosts of package registries"],
)
def test_no_trace_of_one_machine(pattern: re.Pattern[str]) -> None:
    """No file names a folder of somebody's machine or the host of a package registry."""
    assert list(lines(pattern)) == []


def test_pinned_packages_name_no_index() -> None:
    """The pinned packages come from whatever index the machine is set up with."""
    pinned = [path for path in project_files() if path.parent.name == "requirements"]
    assert pinned
    assert [path.name for path in pinned if INDEX_OPTIONS.search(path.read_text())] == []


def test_every_pinned_package_has_a_version_and_hashes() -> None:
    """Each requirement is one exact version with at least one hash."""
    for path in project_files():
        if path.parent.name != "requirements":
            continue
        text = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", path.read_text()))
        wrong = [line for line in text.splitlines() if line and not PINNED.fullmatch(line)]
        assert wrong == []


@pytest.mark.parametrize(
    "text", ["see /" + "work/main", "at https://" + "pypi" + ".org/simple", "/root" + "/.cache"]
)
def test_the_patterns_find_what_they_should(text: str) -> None:
    """Each kind of trace is noticed."""
    assert MACHINE_PATHS.search(text) or REGISTRY_HOSTS.search(text)
