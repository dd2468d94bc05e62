"""`headgate nexmark`: runs queries of the Nexmark benchmark, and compares their results with DuckDB's."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from headgate.cli.command_parameters import AsJson
from headgate.cli.exit_codes import print_outcome
from headgate.common.errors import OperatingError, UsageError

Queries = Annotated[list[str], typer.Argument(metavar="QUERY...", help="Such as q2, or all.")]
Events = Annotated[int, typer.Option(help="How many events of all kinds are generated.")]
Input = Annotated[
    Path | None, typer.Option("--input", help="Folder with persons/, auctions/ and bids/ in place of that.")
]
Output = Annotated[Path | None, typer.Option(help="Folder for results, a folder for each query.")]
Check = Annotated[bool, typer.Option("--check", help="Compare with DuckDB's answers, or a plain matcher's.")]
Tasks = Annotated[int, typer.Option("--parallelism", help="Subtasks of the job.")]


class Ran(NamedTuple):
    """The result of one query; `right`: whether it equals the reference's, None where it was not compared."""

    query: str
    rows: int
    seconds: float
    right: bool | None

    def __str__(self) -> str:
        other = "a plain matcher's" if self.query.startswith("cep") else "DuckDB's"
        judged = {None: "", True: f", as {other}", False: f", NOT as {other}"}[self.right]
        return f"{self.query}: {self.rows:,} rows in {self.seconds:.1f} s{judged}"


def nexmark(
    queries: Queries,
    events: Events = 1_000_000,
    source: Input = None,
    output: Output = None,
    check: Check = False,
    parallelism: Tasks = 2,
    as_json: AsJson = False,
) -> None:
    """Run queries of Nexmark on local Spark: q0 to q23, and cep0 to cep3, its patterns."""

    def outcome() -> str:
        found = list(_run(queries, events, source, output, check, parallelism))
        wrong = [each.query for each in found if each.right is False]
        text = json.dumps([each._asdict() for each in found]) if as_json else "\n".join(map(str, found))
        if wrong:
            raise OperatingError(
                f"{text}\n{', '.join(wrong)}: the result differs from the reference's; please report this"
            )
        return text

    print_outcome(outcome, as_json)


def _run(
    queries: list[str], events: int, source: Path | None, output: Path | None, check: bool, parallelism: int
) -> Iterator[Ran]:
    from headgate.api.environment import Environment
    from headgate.nexmark.dataset import open_files
    from headgate.nexmark.files import generate_files
    from headgate.nexmark.generator import NexmarkSettings
    from headgate.nexmark.queries import QUERIES, Inputs
    from headgate.nexmark.reference import ANSWERS
    from headgate.nexmark.results import read_result, result_files

    chosen = list(QUERIES) if queries == ["all"] else queries
    for query in chosen:
        if query not in QUERIES:
            raise UsageError(f"there is no query {query!r}; expected all, or some of {', '.join(QUERIES)}")
    with _folder(output) as results, _folder(None) as data:
        dataset = (
            generate_files(data, NexmarkSettings(seed=1), events, files=parallelism, interleaved=True)
            if source is None
            else open_files(source, sorted({table for query in chosen for table in QUERIES[query].tables}))
        )
        for query in chosen:
            env = Environment(parallelism=parallelism)
            folder = (results / query).resolve()
            QUERIES[query].write(Inputs(env, dataset.directory), folder)
            began = time.monotonic()
            env.execute(f"nexmark-{query}")
            took = time.monotonic() - began
            right = read_result(query, folder).equals(ANSWERS[query][0](dataset)) if check else None
            yield Ran(query, result_files(query, folder).count_rows(), round(took, 2), right)


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="headgate-nexmark-") as folder:
        yield Path(folder) / "files"
