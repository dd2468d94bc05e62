"""Nothing of the machine a file was written on stays in the project."""

from __future__ import annotations

import re
from collections.abc import Iterator

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


def lines() -> Iterator[tuple[str, int, str]]:
    """Every line of every text file of the project."""
    for path in project_files():
        data = path.read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), 1):
            yield path.relative_to(ROOT).as_posix(), number, line


@pytest.mark.parametrize(
    "pattern",
    [MACHINE_PATHS, REGISTRY_HOSTS],
    ids=["paths of one machine", "hosts of package registries"],
)
def test_no_trace_of_one_machine(pattern: re.Pattern[str]) -> None:
    """No file names a folder of somebody's machine or the host of a package registry."""
    assert [f"{path}:{number}: {line}" for path, number, line in lines() if pattern.search(line)] == []


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
