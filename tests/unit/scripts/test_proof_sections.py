"""The sections of the proof: each is a command with a record of its own, and the docs list all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from proof import sections
from proof.sections import RESULTS, SECTIONS, Section, carry_out, counts_of_tests, main

ROOT = Path(__file__).resolve().parents[3]
WRITES = """
import pathlib, sys
pathlib.Path(sys.argv[1]).write_text('{"counted": 3}')
sys.exit(int(sys.argv[2]))
"""


def section(code: int) -> Section:
    """One that counts to 3 and ends with `code`."""
    return Section("counts", ("-c", WRITES, RESULTS, str(code)))


def test_a_record_says_what_held(tmp_path: Path) -> None:
    """When, of which commit, by which command, and what was counted."""
    assert carry_out("counting", section(0), [], tmp_path)
    record = json.loads((tmp_path / "counting.json").read_text())
    assert (record["held"], record["exit_code"], record["counted"], record["what"]) == (True, 0, 3, "counts")
    assert {"time", "commit", "uncommitted_changes", "machine", "versions", "duration_s", "command"} <= set(
        record
    )


def test_a_record_says_what_did_not_hold(tmp_path: Path) -> None:
    """What was counted is kept all the same."""
    assert not carry_out("counting", section(2), [], tmp_path)
    record = json.loads((tmp_path / "counting.json").read_text())
    assert (record["held"], record["exit_code"], record["counted"]) == (False, 2, 3)


def test_a_section_ends_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And has not held then, though it wrote nothing."""
    monkeypatch.setattr(sections, "LIMIT_S", 1)
    assert not carry_out("endless", Section("waits", ("-c", "import time; time.sleep(60)")), [], tmp_path)
    assert json.loads((tmp_path / "endless.json").read_text())["exit_code"] == 124


def test_a_section_that_fails_keeps_no_other_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code and the last line say which it was."""
    monkeypatch.setattr(sections, "SECTIONS", {"first": section(1), "second": section(0)})
    assert main(["--record", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "sections that did not hold: first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.json", "second.json"]
    assert main(["second", "--record", str(tmp_path)]) == 0


def test_further_arguments_are_for_one_section_and_leave_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ran is not what the record would claim."""
    monkeypatch.setattr(sections, "SECTIONS", {"first": section(0), "second": section(0)})
    monkeypatch.setattr(sections, "RECORDS", tmp_path)
    assert main(["first", "--smoke"]) == 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SystemExit):
        main(["--smoke"])


def test_an_unknown_section_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names of all."""
    with pytest.raises(SystemExit):
        main(["fuss"])
    assert "there is no section fuss; expected searches, replays, at-length" in capsys.readouterr().err


def test_tests_are_counted(tmp_path: Path) -> None:
    """By what pytest writes."""
    path = tmp_path / "results"
    path.write_text(
        '<testsuites><testsuite><testcase classname="a" name="b" time="2.5"/>'
        '<testcase classname="a" name="c" time="0.5"><failure/></testcase>'
        '<testcase classname="a" name="d"><skipped/></testcase></testsuite></testsuites>'
    )
    found = counts_of_tests(path)
    assert (found["tests"], found["skipped"], found["failed"]) == (3, 1, ["a::c"])
    assert next(iter(found["slowest_s"].items())) == ("a::b", 2.5)


def test_docs_and_makefile_list_all_sections() -> None:
    """In the order in which they run."""
    page = (ROOT / "docs" / "proof" / "README.md").read_text()
    assert re.findall(r"^\| `([a-z-]+)` \|", page.partition("## The job")[0], re.MULTILINE) == list(SECTIONS)
    assert (
        f"SECTION={', or '.join([next(iter(SECTIONS)), ', '.join(list(SECTIONS)[1:])])}"
        in (ROOT / "Makefile").read_text()
    )
