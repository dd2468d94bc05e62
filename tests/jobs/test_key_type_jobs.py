"""State under keys of one type, and a program that asks for another: check, restore and run refuse it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from key_programs import (
    HALF,
    Both,
    ByNumber,
    Count,
    Forgetful,
    Nothing,
    Number,
    OnlyTimers,
    Pair,
    Program,
    UserId,
    Word,
    by_name,
    by_number,
    counting,
    goes_on,
    judged,
    keys_item,
    mixed,
    name,
    number,
    pair,
    refused,
    silent,
    stopped,
    truth,
    turned,
    without_types,
    wrongly_told,
)
from mini_jobs import json_lines
from running_jobs import wait_until

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.offline import migrating
from headgate.offline.migrating import reslice
from headgate.offline.rewriting import rewrite
from headgate.offline.upgrade import Verdict

OTHER = [
    (Program(counting(int), number), Program(counting(str), name), "int", "str"),
    (Program(), Program(counting(str), silent(name)), "int", "str"),
    (Program(), Program(Count, name), "int", "str"),
    (Program(Count, "user", by_number), Program(Count, "user", by_name), "int", "str"),
    (Program(Count, ("user", "shop"), by_number), Program(Count, ("user", "shop"), by_name),
     "tuple[int, str]", "tuple[str, str]"),
    (Program(Count, name), Program(counting(Number), silent(number)), "str", "Number"),
    pytest.param(Program(Count, pair), Program(Count, turned), "tuple[str, int]", "tuple[int, str]",
                 marks=pytest.mark.ci),
    (Program(Count, turned), Program(counting(Pair), silent(pair)), "tuple[int, str]", "Pair"),
    (Program(Count, silent(mixed)), Program(Count, number), "int and str", "int"),
    (Program(OnlyTimers), Program(OnlyTimers, name), "int", "str"),
    (Program(), Program(Both, silent(name)), "int", "str"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "stored", "declared"), OTHER)
def test_keys_of_another_type_are_refused(
    before: Program, after: Program, stored: str, declared: str, tmp_path: Path
) -> None:
    """Else the new program would find none of its state, and nobody would hear of it."""
    refused(stopped(before, tmp_path), after, tmp_path, stored, declared)


SAME = [
    (Program(), Program(Count, number)),
    (Program(Count, truth), Program(counting(int), silent(lambda n: int(n % 2 == 0)))),
    (Program(), Program(counting(Number), silent(number))),
    (Program(), Program(counting(UserId), silent(number))),
    (Program(counting(float), silent(number)), Program(Count, number)),
    (Program(Count, pair), Program(counting(Pair), silent(pair))),
    (Program(Count, silent(mixed)), Program(counting(int | str), silent(mixed))),
    (Program(Count, silent(mixed)), Program(Count, silent(mixed))),
]


@pytest.mark.parametrize(("before", "after"), SAME)
def test_keys_that_equal_the_stored_ones_go_on(before: Program, after: Program, tmp_path: Path) -> None:
    """True is 1, an enumeration's value is the value, a tuple is a tuple; and what is mixed stays mixed."""
    goes_on(stopped(before, tmp_path), after, tmp_path)


EACH = [
    ("heap", "canonical", False),
    ("incremental", "native", False),
    ("rocksdb", "native", True),
    pytest.param("heap", "native", True, marks=pytest.mark.ci),
    pytest.param("incremental", "canonical", True, marks=pytest.mark.ci),
    pytest.param("changelog", "native", False, marks=pytest.mark.ci),
    pytest.param("changelog", "native", True, marks=pytest.mark.ci),
    pytest.param("rocksdb", "canonical", False, marks=pytest.mark.ci),
]


@pytest.mark.ci
@pytest.mark.parametrize(("backend", "form", "old"), EACH)
def test_every_kind_of_snapshot_tells_the_type(backend: str, form: str, old: bool, tmp_path: Path) -> None:
    """One without the types, too: the keys in its state decide. Another parallelism changes nothing."""
    folder = stopped(Program(backend=backend), tmp_path, form)
    snapshot = without_types(folder) if old else folder
    refused(snapshot, Program(Count, name, backend=backend, parallelism=3), tmp_path, "int", "str")
    goes_on(snapshot, Program(Count, number, backend=backend, parallelism=3), tmp_path)


def test_the_types_outlive_rescaling_and_older_snapshots(tmp_path: Path) -> None:
    """A job that goes on from a snapshot without the types writes them into its own, of all keys it has."""
    snapshot = without_types(stopped(Program(), tmp_path))
    env = Program(Count, silent(lambda n: "late"), parallelism=3).env(tmp_path, HALF)
    with env.execute_async("keys", restore_from=snapshot) as job:
        wait_until(lambda: job.done or job.status().checkpoints_completed, "the job runs")
        later = job.stop(str(tmp_path / "later"))
        job.result()
    path = unquote(urlsplit(later).path)
    seen = [state.keyed.key_types for state in open_checkpoint(path)[1].operators["count"] if state.keyed]
    assert len(seen) == 3
    assert {kind for kinds in seen for kind in kinds or ()} == {"int"}
    refused(path, Program(Count, name), tmp_path, "int", "str")


@pytest.mark.parametrize("form", ["canonical", "native"])
def test_rewritten_snapshots_tell_the_types_that_they_hold(form: str, tmp_path: Path) -> None:
    """Other key groups keep the types; a migration of the keys is the way to another one."""
    snapshot = stopped(Program(), tmp_path, form)
    resliced = str(tmp_path / "resliced")
    reslice(snapshot, resliced, 128)
    after = Program(Count, name)
    refused(resliced, after, tmp_path, "int", "str")
    migrated = str(tmp_path / "migrated")
    change = migrating.Migration(
        open_checkpoint(resliced)[1], after.env(tmp_path).plan("keys"), {"count": str}
    )
    rewrite(resliced, migrated, change)
    refused(migrated, Program(Count, number), tmp_path, "str", "int")
    goes_on(migrated, after, tmp_path, str)


def test_a_migration_forgets_the_types_of_which_nothing_is_left(tmp_path: Path) -> None:
    """What was seen once counts, until the snapshot is rewritten to what it holds."""
    snapshot = stopped(Program(Forgetful, silent(mixed)), tmp_path)
    after = Program(Count, silent(mixed))
    declared = Program(counting(int), silent(mixed))
    refused(snapshot, declared, tmp_path, "int and str", "int")
    migrated = str(tmp_path / "migrated")
    metadata, plan = open_checkpoint(snapshot)[1], declared.env(tmp_path).plan("keys")
    rewrite(snapshot, migrated, migrating.Migration(metadata, plan, {}))
    item = keys_item(judged(migrated, declared, tmp_path))
    assert (item.verdict, item.stored) == (Verdict.AS_IS, "int")
    after.env(tmp_path).execute("keys", restore_from=migrated)


def falsely(n: int) -> ByNumber:
    """A record with a str where it says int."""
    return ByNumber(str(n))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "program",
    [
        Program(counting(int), silent(name)),
        Program(Count, wrongly_told),
        Program(Count, "user", falsely),
    ],
)
def test_a_running_job_refuses_keys_of_another_type_than_declared(program: Program, tmp_path: Path) -> None:
    """Else its own checkpoint could not be restored; both types are named, and who declares."""
    said = "got a key of type str, and .* declares keys of type int"
    with pytest.raises(hg.HeadgateError, match=said):
        program.env(tmp_path).execute("keys")


def test_mixed_keys_that_nobody_declares_go_on_working(tmp_path: Path) -> None:
    """A new type among them is told in the log only, where state was restored under others."""
    Program(Count, silent(mixed)).env(tmp_path).execute("keys")
    assert {type(key) for key, _ in json_lines(tmp_path / "out")} == {int, str}


def test_other_keys_that_nobody_declares_are_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No check can see what a key function without annotations will give."""
    snapshot = stopped(Program(), tmp_path)
    item = keys_item(judged(snapshot, Program(Count, silent(name)), tmp_path))
    assert (item.verdict, item.why) == (Verdict.AS_IS, "the program does not declare their type")
    with caplog.at_level(logging.WARNING):
        Program(Count, silent(name)).env(tmp_path).execute("keys", restore_from=snapshot)
    told = [
        record.getMessage() for record in caplog.records if "a key of type str came" in record.getMessage()
    ]
    assert told
    assert "restored is under keys of type int" in told[0]
    assert len(told) <= 2, "once for each subtask"


def test_a_function_without_state_may_get_other_keys(tmp_path: Path) -> None:
    """Nothing is lost there."""
    snapshot = stopped(Program(Nothing), tmp_path)
    program = Program(Nothing, name)
    assert judged(snapshot, program, tmp_path).restorable
    program.env(tmp_path).execute("keys", restore_from=snapshot)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (Number.ONE, "of type .*Number; expected int, .*; make the key selector give the member's value"),
        (Word.ANT, "of type .*Word; expected int, .*; make the key selector give the member's value"),
        (Pair("a", 1), r"of type .*Pair; expected int, .*; make the key selector give tuple\(...\) of it"),
        (None, "a key is None of type NoneType; expected int, .*; fill or filter records without a key"),
        (("a", None), "a key is None of type NoneType; expected int, .*; fill or filter records without"),
    ],
)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_what_is_no_plain_key_is_refused(key: Any, said: str, parallelism: int, tmp_path: Path) -> None:
    """A member of an enumeration would come back from a checkpoint as a plain value."""
    with pytest.raises(hg.HeadgateError, match=said):
        Program(Count, lambda n: key, parallelism=parallelism).env(tmp_path).execute("keys")
