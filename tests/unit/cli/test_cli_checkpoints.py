"""``headgate checkpoints``: which history it finds, which checkpoint it shows, and what it says otherwise."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate.checkpoint.history_file import HistoryFile, history_name
from headgate.checkpoint.storage.local import LocalDisk
from headgate.cli.main import app
from headgate.common.ids import JobId
from headgate.core.checkpoint.history import (
    CheckpointRecord,
    CheckpointStatus,
    EdgeFacts,
    SubtaskRecord,
    Topology,
    VertexFacts,
)

GRAPH = Topology(
    (VertexFacts(0, "In", ("in",), 1), VertexFacts(1, "Count", ("count",), 2)),
    (EdgeFacts(0, 1, "ByKeyGroup"),),
)
SOURCE = SubtaskRecord(0, 0, 2, start_delay_ms=1.0)
SLOW = SubtaskRecord(1, 1, 4200, start_delay_ms=4190.0, state_size=2500, bytes_written=2500)
COMPLETED = CheckpointRecord(
    1, 1, "periodic", CheckpointStatus.COMPLETED, 1_795_000_000_000, GRAPH, 4210, 4205,
    (SOURCE, SubtaskRecord(1, 0, 3), SLOW),
)  # fmt: skip
FAILED = CheckpointRecord(
    2, 1, "periodic", CheckpointStatus.FAILED, 1_795_000_010_000, GRAPH, 60_000, None, (SOURCE,),
    ((1, 0), (1, 1)), "CHECKPOINT_EXPIRED", "no acknowledgement from (1, 0), (1, 1)",
)  # fmt: skip
RUNNING = CheckpointRecord(3, 1, "manual", CheckpointStatus.IN_PROGRESS, 1_795_000_070_000, GRAPH, 5)


def headgate(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    result = CliRunner().invoke(app, ["checkpoints", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def keep(root: Path, job: str, *records: CheckpointRecord, at_s: int = 100) -> str:
    """Write a job's history as if at `at_s`; gives the storage folder."""
    HistoryFile(LocalDisk(root), JobId(job), job.partition("-")[0]).write(records)
    os.utime(root / history_name(JobId(job)), (at_s, at_s))
    return str(root)


def told(*arguments: str) -> str:
    """What a call that goes well prints."""
    code, out, err = headgate(*arguments)
    assert (code, err) == (0, "")
    return out


def test_the_table_of_all(tmp_path: Path) -> None:
    """Newest first, each with status, sizes and the subtask that it waited for."""
    lines = told(keep(tmp_path, "streaks-1", COMPLETED, FAILED)).splitlines()
    assert lines[0] == "job 'streaks' (streaks-1): 2 checkpoints"
    rows = [line.split() for line in lines if line[:1].isdigit()]
    assert [row[:3] for row in rows] == [["2", "periodic", "failed"], ["1", "periodic", "completed"]]
    assert rows[1][5:] == ["4.2", "s", "2.5", "kB", "0", "B", "no", "'count'[1]", "4.2", "s"]
    assert rows[0][-5:] == ["'count'[0]", "and", "1", "more", "missing"]


def test_the_last_completed_one_in_full(tmp_path: Path) -> None:
    """Its subtasks, the path as a line of hops, and why."""
    out = told(keep(tmp_path, "streaks-1", COMPLETED), "--last")
    assert out.startswith("checkpoint 1 completed: periodic, attempt 1, triggered 2026-11-18 11:06:40 UTC")
    assert "slowest path: 'in'[0] (trigger 1.0 ms) -> 'count'[1] (barrier 4.2 s, other 10 ms)" in out
    assert "-> stored 5.0 ms -> committed 5.0 ms" in " ".join(out.split())
    assert "why: the barrier took 4.2 s to pass the records queued before 'count'[1] (backpressure" in out
    assert [line.split()[:2] for line in out.splitlines() if line[:1] == "*"] == [
        ["*", "'in'[0]"],
        ["*", "'count'[1]"],
    ]


def test_columns_of_nothing_but_zeros_are_left_out(tmp_path: Path) -> None:
    """So that the table fits; what has a figure anywhere has a column."""
    header = next(
        line for line in told(keep(tmp_path, "a", COMPLETED), "--last").splitlines() if "subtask" in line
    )
    assert header.split() == [
        "subtask",
        "acknowledged",
        "start",
        "delay",
        "alignment",
        "sync",
        "async",
        "written",
    ]


def test_a_failed_newest_one_is_shown_and_said_so(tmp_path: Path) -> None:
    """With who did not acknowledge, and where the last completed one is."""
    out = told(keep(tmp_path, "streaks-1", COMPLETED, FAILED, RUNNING), "--last")
    assert "the newest checkpoint failed and is shown; the last completed one is 1 (--id 1)" in out
    assert "checkpoint 3 is in progress (--id 3)" in out
    assert "failed because the checkpoint was not complete within its timeout" in out
    assert out.count("not acknowledged") == 3
    assert "why: 'count'[0] never acknowledged within 1 min 0 s, although 'in'[0] passed" in out


def test_one_by_its_id(tmp_path: Path) -> None:
    """Any that is kept; of another the message says which are."""
    root = keep(tmp_path, "streaks-1", COMPLETED, FAILED, RUNNING)
    assert told(root, "--id", "3").startswith("checkpoint 3 in progress: manual")
    code, out, err = headgate(root, "--id", "9")
    assert (code, out) == (2, "")
    assert err == "headgate: checkpoint 9 is not in the history of job 'streaks-1'; it keeps 1 to 3\n"


def test_for_machines(tmp_path: Path) -> None:
    """One JSON object: all records, or one with its path; sums are added."""
    root = keep(tmp_path, "streaks-1", COMPLETED, FAILED)
    every: dict[str, Any] = json.loads(told(root, "--json"))
    assert (every["job"], every["job_name"]) == ("streaks-1", "streaks")
    assert [each["status"] for each in every["checkpoints"]] == ["completed", "failed"]
    one = json.loads(told(root, "--id", "1", "--json"))
    assert (one["checkpoint"]["size"], one["checkpoint"]["subtasks"][2]["ack_latency_ms"]) == (2500, 4200)
    assert [hop["label"] for hop in one["slowest_path"]["hops"]] == ["'in'[0]", "'count'[1]"]
    assert one["slowest_path"]["why"].startswith("the barrier took 4.2 s")


def test_of_several_jobs_the_newest_or_the_one_asked_for(tmp_path: Path) -> None:
    """The others are named; a job goes by its id, its name or its folder."""
    keep(tmp_path, "old-1", COMPLETED, at_s=100)
    root = keep(tmp_path, "new-1", FAILED, at_s=200)
    assert told(root).startswith("job 'new' (new-1)")
    assert "choose another with --job: old-1" in told(root)
    for arguments in ([root, "--job", "old-1"], [root, "--job", "old"], [str(tmp_path / "old-1")]):
        out = told(*arguments)
        assert out.startswith("job 'old' (old-1)")
        assert "--job" not in out
    code, _, err = headgate(root, "--job", "nobody")
    assert code == 2
    assert "there is no history of job 'nobody' here; there is one of new-1, old-1" in err


def test_the_configured_directory_is_the_default(tmp_path: Path) -> None:
    """By the option that the job itself is given; without any the message says how."""
    option = f"execution.checkpointing.dir={keep(tmp_path, 'streaks-1', COMPLETED)}"
    assert told("-D", option).startswith("job 'streaks'")
    code, _, err = headgate()
    assert code == 2
    assert "no checkpoint directory is given" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["empty"], "empty holds no history of checkpoints"),
        (["damaged"], "is no history of checkpoints"),
        (["none", "--last"], "has triggered no checkpoint yet"),
        (["none", "--id", "1"], "it keeps none"),
        (["none", "--last", "--id", "1"], "--last and --id exclude each other"),
        (["memory://elsewhere"], "memory://elsewhere holds no history of checkpoints"),
        (["ftp://host/x"], "has scheme 'ftp', which is not supported"),
        (["s3://bucket/x", "-D", "s3.access-key=me"], "s3.access-key is set but s3.secret-key is not"),
        (["none", "-D", "no.such=1"], "does not exist"),
    ],
)
def test_what_cannot_be_shown_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    """On the standard error, with the code of a refusal and no traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    keep(tmp_path / "none", "streaks-1")
    damaged = tmp_path / "damaged" / history_name(JobId("streaks-1"))
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"{")
    code, out, err = headgate(*arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.startswith("headgate: ")
    assert err.count("\n") == 1


def test_names_with_brackets_are_printed_as_they_are(tmp_path: Path) -> None:
    """A uid is the user's text and no markup."""
    graph = Topology((VertexFacts(0, "In", ("[red]in[/]",), 1),), ())
    record = CheckpointRecord(
        1, 1, "final", CheckpointStatus.COMPLETED, 0, graph, 3, 3, (SubtaskRecord(0, 0, 2),)
    )
    out = told(keep(tmp_path, "a", record), "--last")
    assert out.count("'[red]in[/]'[0]") == 3
