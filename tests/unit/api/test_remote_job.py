"""Which job is meant by what somebody types, and that both kinds of handle are asked alike."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import headgate as hg
from headgate.api.jobs.remote_job import find_job
from headgate.common.files.job_files import JobFile, KnownJob


def known(job_id: str, name: str, gone: bool = False) -> KnownJob:
    """A job with a file."""
    return KnownJob(JobFile(job_id, name, 1, "here", 0, "http://127.0.0.1:1", "s"), Path(job_id), gone)


JOBS = [
    known("words-20260101-1", "words", gone=True),
    known("words-20260102-2", "words"),
    known("numbers-1", "numbers"),
    known("numbers-2", "numbers"),
    known("words", "odd"),
    known("lost-1", "lost", gone=True),
    known("lost-2", "lost", gone=True),
]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("words-20260102-2", "words-20260102-2"),
        ("words", "words"),
        ("numbers-1", "numbers-1"),
        ("words-2026", "words-20260102-2"),
        ("words-20260101-1", "words-20260101-1"),
        ("odd", "words"),
        ("lost", "lost-2"),
    ],
)
def test_a_job_is_meant_by_id_name_or_the_beginning_of_its_id(asked: str, meant: str) -> None:
    """An id goes before a name, a name before a beginning, and what runs before what is gone."""
    assert find_job(asked, JOBS).file.job_id == meant


@pytest.mark.parametrize("asked", ["numbers", "numbers-", "n"])
def test_two_that_could_be_meant_are_named(asked: str) -> None:
    """Nothing is chosen for the user."""
    with pytest.raises(hg.UsageError, match=r"any of several jobs; give one of numbers-1 .*, numbers-2"):
        find_job(asked, JOBS)


@pytest.mark.parametrize("asked", ["nothing", "", "WORDS"])
def test_of_no_such_job_those_there_are_are_named(asked: str) -> None:
    """One sentence."""
    with pytest.raises(
        hg.UsageError, match=rf"there is no job '{asked}'; running are words-20260102-2 \('words'\)"
    ):
        find_job(asked, JOBS)
    with pytest.raises(hg.UsageError, match="no job of yours is running on this machine"):
        find_job(asked, [])


def test_both_handles_take_the_same_questions() -> None:
    """A program can be written for either; both have all questions, with the same defaults."""
    for name in ("status", "checkpoint", "savepoint", "stop", "rescale", "cancel"):
        mine, other = (inspect.signature(getattr(cls, name)) for cls in (hg.JobHandle, hg.RemoteJob))
        assert mine == other, name
    assert isinstance(hg.JobHandle.done, property)
    assert isinstance(hg.RemoteJob.done, property)
