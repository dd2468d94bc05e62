"""What the kernel tells of memory, in both of its forms."""

from __future__ import annotations

from pathlib import Path

from headgate.common.process.processes import oom_kills, resident_bytes


def test_own_memory() -> None:
    """An interpreter with Headgate has more than a few megabytes."""
    assert resident_bytes() > 5_000_000


def test_kills_for_want_of_memory(tmp_path: Path) -> None:
    """Those of the process's own group, by the first or the second version; else nothing is known."""
    own = tmp_path / "cgroup"
    own.write_text("0::/jobs/one\n")
    group = tmp_path / "jobs" / "one"
    group.mkdir(parents=True)
    assert oom_kills(own, tmp_path) is None
    (group / "memory.events").write_text("low 0\noom 4\noom_kill 3\n")
    assert oom_kills(own, tmp_path) == 3
    own.write_text("12:cpu:/\n5:memory:/jobs/two\n")
    first = tmp_path / "memory" / "jobs" / "two"
    first.mkdir(parents=True)
    (first / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n")
    assert oom_kills(own, tmp_path) == 7
