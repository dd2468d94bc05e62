"""Which drivers `headgate list` asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.api.jobs.remote_job import RemoteJob
from headgate.cli.pages.jobs_page import look
from headgate.common.files.job_files import JobFile, KnownJob


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1", "https://[::1]:1", "http://localhost:1", "http://127.1.2.3:1"]
)
def test_nobody_asks_the_own_machine_for_a_job_of_another_one(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever listens there would get the job's secret."""
    monkeypatch.setattr(RemoteJob, "__init__", lambda self, job: pytest.fail(f"{job} was asked"))
    file = JobFile("job", "name", 1, "another-machine", 0, address, "secret")
    (seen,) = look([KnownJob(file, Path("job.json"), exited=False)])
    assert (seen.state, seen.remark) == ("elsewhere", "it can be asked on another-machine only")
