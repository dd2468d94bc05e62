"""What becomes of state without windows when a program changes: the verdict beforehand is what a restore
does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from mini_jobs import TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.tables.updating import folded
from headgate.checkpoint.opening import open_checkpoint
from headgate.offline.judging import Judgement
from headgate.offline.upgrade import Verdict
from headgate.relational.changes import SIGNS
from headgate.runtime.worker.operators.columns.updating import logged_state

NUMBERS = count(13_700)
BIDS = pa.schema({"id": pa.int64(), "auction": pa.int64(), "price": pa.int64(), "note": pa.string()})
AUCTIONS = pa.schema({"auction": pa.int64(), "seller": pa.string(), "city": pa.string()})
BID_ROWS = [{"id": n, "auction": n % 10, "price": n * 7 % 20, "note": f"n{n % 3}"} for n in range(120)]
AUCTION_ROWS = [{"auction": n, "seller": f"s{n % 4}", "city": f"c{n % 2}"} for n in range(12)]

Build = Callable[[Any, Any], Any]
TOTAL = F.sum("price").alias("total")


def joined(bids: Any, auctions: Any, *columns: str, how: str = "left", **more: Any) -> Any:
    return (
        bids()
        .select("id", "auction", "price")
        .join(auctions().select("auction", "seller", *columns), "auction", how, uid="state", **more)
    )


def several(bids: Any, auctions: Any, *columns: str, more: list[Any] | None = None) -> Any:
    tables = [auctions().select("auction", "seller", *columns), renamed(bids, "note"), *(more or [])]
    return bids().select("id", "auction", "price").join(tables, "auction", uid="state")


def renamed(bids: Any, *columns: str) -> Any:
    return bids().select("auction", *(F.col(name).alias(f"other_{name}") for name in columns))


def groups(*aggregates: Any, by: str = "auction", **more: Any) -> Build:
    return lambda bids, auctions: (
        bids().group_by(by).agg(F.count("*").alias("n"), *aggregates, uid="state", **more)
    )


def ranked(*columns: str, n: int = 2, by: str = "auction") -> Build:
    return lambda bids, auctions: (
        bids().select("id", "auction", "price", *columns).top_n(n, by, [F.desc("price"), "id"], uid="state")
    )


OLD: dict[str, Build] = {
    "join": joined,
    "tables": several,
    "groups": groups(TOTAL),
    "values": groups(F.count_distinct("note").alias("notes"), F.count_distinct("price").alias("prices")),
    "rank": ranked(),
    "distinct": lambda bids, auctions: bids().select("auction", "note").distinct(uid="state"),
    "subtract": lambda bids, auctions: (
        auctions().select("auction").subtract(bids().select("auction"), uid="state")
    ),
}
CHANGES: dict[str, tuple[str, Build, bool]] = {
    "a column more on one side of a join": ("join", lambda b, a: joined(b, a, "city"), True),
    "another kind of join": ("join", lambda b, a: joined(b, a, how="full"), False),
    "a column more of one of several tables": ("tables", lambda b, a: several(b, a, "city"), True),
    "a table more": ("tables", lambda b, a: several(b, a, more=[renamed(b, "id", "price")]), False),
    "a time to live of a join": ("join", lambda b, a: joined(b, a, ttl="1d"), True),
    "another key of a join": (
        "join",
        lambda b, a: b().select("id", "note", "price").join(
            a().select("seller", F.col("city").alias("note")), "note", "left", uid="state"
        ),
        False,
    ),
    "an aggregate less": ("groups", groups(), True),
    "an aggregate more": ("groups", groups(TOTAL, F.max("price").alias("top")), False),
    "a count of different values less": ("values", groups(F.count_distinct("note").alias("notes")), True),
    "counts of different values in another order": (
        "values",
        groups(F.count_distinct("price").alias("prices"), F.count_distinct("note").alias("notes")),
        True,
    ),
    "a count of different values more": (
        "groups",
        groups(TOTAL, F.count_distinct("note").alias("notes")),
        False,
    ),
    "a count of other values": (
        "values",
        groups(F.count_distinct("note").alias("prices"), F.count_distinct("price").alias("notes")),
        False,
    ),
    "another key of groups": ("groups", groups(TOTAL, by="note"), False),
    "a time to live of groups": ("groups", groups(TOTAL, ttl="1d"), True),
    "a column more of a rank": ("rank", ranked("note"), True),
    "more rows of a rank": ("rank", ranked(n=3), False),
    "fewer rows of a rank": ("rank", ranked(n=1), False),
    "another order of a rank": (
        "rank", lambda b, a: b().select("id", "auction", "price").top_n(
            2, "auction", [F.asc("price"), "id"], uid="state"
        ), False,
    ),
    "the same distinct rows": ("distinct", OLD["distinct"], True),
    "distinct rows of fewer columns": (
        "distinct", lambda b, a: b().select("auction").distinct(uid="state"), False,
    ),
    "another operation on sets": (
        "subtract", lambda b, a: a().select("auction").intersect(b().select("auction"), uid="state"), False,
    ),
}  # fmt: skip


def program(env: hg.Environment, folder: Path, build: Build, limit: float) -> None:
    @cache
    def bids() -> Any:
        return env.from_source(Valve(next(NUMBERS), limit, BID_ROWS), uid="bids").to_table(BIDS)

    @cache
    def auctions() -> Any:
        return env.from_source(Valve(next(NUMBERS), limit, AUCTION_ROWS), uid="auctions").to_table(AUCTIONS)

    build(bids, auctions).write_changelog(folder / "out", uid="out")


@pytest.fixture(scope="module", params=["savepoint", "log"])
def savepoints(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """Gives the folder of a savepoint, or of a checkpoint with a log, of an old program that has read about
    half of its input.
    """
    made: dict[str, str] = {}
    logs = request.param == "log"
    rows_min = 0 if logs else logged_state.ROWS_MIN
    config = {**TINY, "restart-strategy.type": "none"}
    if logs:
        config["execution.checkpointing.data-inline-threshold"] = "0b"

    def of(name: str) -> str:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            env = environment(1, config)
            env.checkpoints(every="20ms", storage=str(folder / "checkpoints"))
            program(env, folder, OLD[name], 60)
            with env.execute_async("old") as handle:
                wait_until(
                    lambda: (
                        handle.done
                        or read(handle) == 60 + len(AUCTION_ROWS) * (name in ("join", "tables", "subtract"))
                    ),
                    "records came",
                )
                if logs:
                    made[name] = with_log(handle, folder / "checkpoints")
                else:
                    uri = handle.stop(str(folder / "savepoints"), format="canonical")
                    handle.result()
                    made[name] = unquote(urlsplit(uri).path)
        return made[name]

    with mock.patch.object(logged_state, "ROWS_MIN", rows_min):
        yield of


def with_log(handle: Any, storage: Path) -> str:
    """The folder of a cancelled job, whose last checkpoint refers to files of earlier ones."""
    for _ in range(3):
        handle.checkpoint()
    handle.cancel()
    with pytest.raises(hg.JobFailedError, match="cancelled"):
        handle.result()
    (job,) = storage.iterdir()
    keyed = [state.keyed for state in open_checkpoint(str(job))[1].operators["state"]]
    assert any(each.native is not None and len(each.native.files) > 1 for each in keyed if each)
    return str(job)


def read(handle: Any) -> int:
    return sum(v.records_in for v in handle.status().vertices if {"bids", "auctions"} & set(v.uids))


@pytest.mark.ci
@pytest.mark.parametrize("change", CHANGES)
def test_the_verdict_on_a_change_is_what_a_restore_does(
    change: str, savepoints: Callable[[str], str], tmp_path: Path
) -> None:
    """What is kept of the old program's rows goes on; what cannot be is refused before the job runs."""
    old, build, allowed = CHANGES[change]
    savepoint = savepoints(old)
    env = environment(2, {**TINY, "restart-strategy.type": "none"})
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    program(env, tmp_path, build, float("inf"))
    disk, metadata = open_checkpoint(savepoint)
    judgement = Judgement(disk, metadata, env.program.nodes(), env.plan("new"), False)
    report = judgement.report(savepoint, "new")
    found = {item.verdict for each in report.operators if each.uid == "state" for item in each.items}
    assert report.restorable is allowed, found
    if allowed:
        env.execute("new", restore_from=savepoint)
        return
    # A rank of more rows does not declare how many there were.
    assert {Verdict.INCOMPATIBLE, Verdict.ONLY_IN_SNAPSHOT} & found
    with pytest.raises(hg.HeadgateError, match=r"checkpoint|savepoint"):
        env.execute("new", restore_from=savepoint)


def test_the_other_sides_rows_are_kept_when_a_join_gets_a_column(
    savepoints: Callable[[str], str], tmp_path: Path
) -> None:
    """Bids that come later find the auctions of before, whose new column is null; both parts are the
    answer.
    """
    savepoint = savepoints("join")
    env = environment(2, {**TINY, "restart-strategy.type": "none"})
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    program(env, tmp_path, lambda b, a: joined(b, a, "city"), float("inf"))
    env.execute("new", restore_from=savepoint)
    changes = [{"__change": SIGNS.index(row.pop("op")), **row} for row in json_lines(tmp_path / "out")]
    sellers = {row["auction"]: row["seller"] for row in AUCTION_ROWS}
    wanted = Counter((row["id"], sellers.get(row["auction"]), None) for row in BID_ROWS[60:])
    assert Counter((row["id"], row["seller"], row["city"]) for row in folded(changes)) == wanted
