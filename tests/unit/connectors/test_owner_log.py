"""The ownership log of an output directory: two forks of one job, one of which must not publish."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.api.sink import Fork, Lineage, SinkCommitterContext
from headgate.common.errors import FencedError
from headgate.connectors.files.file_names import final_name, part_name
from headgate.connectors.files.owner_log import OwnerLog

LINEAGE = Lineage("base", (Fork("base", 1, 1, 3),))


def log_of(root: Path, job: str) -> OwnerLog:
    """The log as a job that goes on from the savepoint sees it."""
    return OwnerLog(root, SinkCommitterContext("out", job, 1, LINEAGE))


def publish(root: Path, job: str, checkpoint: int) -> None:
    """Publish a file of a job."""
    part = part_name(job, "out", 0, 1, 1, 0, ".jsonl")
    (root / final_name(part, checkpoint, ".jsonl")).write_text("{}\n")


class Racing(OwnerLog):
    """A log of which another job publishes just before this one's entry is there."""

    def __init__(self, root: Path, job: str, other: str) -> None:
        super().__init__(root, SinkCommitterContext("out", job, 1, LINEAGE))
        self._output, self._other = root, other

    def _append(self, number: int) -> bool:
        publish(self._output, self._other, 4)
        return super()._append(number)


def test_the_first_to_publish_goes_on(tmp_path: Path) -> None:
    """The other one is refused, before and after a restart."""
    one, other = log_of(tmp_path, "one"), log_of(tmp_path, "other")
    assert one.require()
    publish(tmp_path, "one", 4)
    for _ in range(2):
        with pytest.raises(FencedError, match=r"1 files .* of job 'one'"):
            other.require()
    assert not one.require()


def test_who_comes_too_late_by_a_moment_is_refused_after_a_restart_too(tmp_path: Path) -> None:
    """It had looked before the owner published, and had made its entry after that: the owner stays it."""
    one = log_of(tmp_path, "one")
    one.require()
    with pytest.raises(FencedError, match=r"1 files .* of job 'one'"):
        Racing(tmp_path, "other", "one").require()
    with pytest.raises(FencedError):
        log_of(tmp_path, "other").require()
    assert one.owned
    assert not one.require()
