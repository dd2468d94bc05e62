"""The page of the documentation about the page is true: its program runs, and its pictures are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from watched_jobs import watched

from headgate.runtime.driver.endpoint.page.event_streams import STREAMS_MAX

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT = (DOCS / "page.md").read_text(encoding="utf-8")


def test_the_program_says_what_holds_a_job_up(tmp_path: Path) -> None:
    """Its one function finds the job by its name."""
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, "page.md", "exec"), names)
    with watched(tmp_path, "words"):
        assert names["bottleneck"]("words").startswith("'count -> text -> out' is the bottleneck")


def test_requests_and_pictures_of_the_page_exist(tmp_path: Path) -> None:
    """Each request of the table is answered, each picture is one, and the limit is the one told."""
    told = set(re.findall(r"`GET (/v1/[a-zA-Z/-]+)[`?]", TEXT)) - {"/v1/job", "/v1/events"}
    assert len(told) == 12
    with watched(tmp_path) as job:
        job.waits("/v1/checkpoint-times", lambda times: times["checkpoints"])
        assert [path for path in told if job.asks(path.replace("/ID", "/1"))[0] != 200] == []
    for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT):
        assert (DOCS / picture).read_bytes().startswith(b"\x89PNG"), picture
    assert STREAMS_MAX == 16
