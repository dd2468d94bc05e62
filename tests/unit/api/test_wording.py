"""Refusals name what the program wrote, where it wrote it, and what could be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.deploy.spark.slots import Need, too_few
from headgate.testing import MiniCluster


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            lambda env, at: env.generate(str, count=3, splits=0),
            r"^generate\(\) \(test_wording\.py:\d+\) got ",
        ),
        (
            lambda env, at: env.read_json([]).collect(),
            r"^read_json\(\) \(test_wording\.py:\d+\) got an empty list",
        ),
        (
            lambda env, at: env.read_csv(at, delimiter="ab").collect(),
            r"^read_csv\(\) \(.*\) got delimiter='ab'",
        ),
        (
            lambda env, at: env.from_collection([1]).write_json(at, roll_bytes=0),
            r"^write_json\(\) \(.*roll_bytes=0",
        ),
        (
            lambda env, at: env.from_collection([1]).write_parquet(at, if_exists="x"),
            r"^write_parquet\(\) \(.*if_exists='x'",
        ),
    ],
)
def test_a_wrong_argument_is_told_under_the_programs_verb(
    build: Callable[[hg.Environment, str], Any], said: str, tmp_path: Path
) -> None:
    """Not under the name of the factory behind it, which the program has not written."""
    with pytest.raises(hg.UsageError, match=said) as caught:
        build(hg.Environment(executor=MiniCluster()), str(tmp_path / "in"))
    assert "_source" not in str(caught.value)
    assert "sink" not in str(caught.value)


@pytest.mark.parametrize("verb", ["take", "preview", "collect"])
def test_a_record_that_cannot_come_is_told_under_the_verb_that_asked(verb: str) -> None:
    """Whoever looks with take() has not written collect()."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    stream = env.from_collection([1]).map(lambda n: (n for _ in range(n)))
    with pytest.raises(hg.HeadgateError, match=rf"{verb}\(\) got a value of type generator"):
        getattr(stream, verb)(*([] if verb == "collect" else [1]))


@pytest.mark.parametrize(
    ("gang", "has", "said"),
    [
        (8, 2, "; as it is, Spark has room for a parallelism of 1 in place of 8"),
        (4, 4, ", or lower the parallelism from 4 to 3"),
    ],
)
def test_lowering_the_parallelism_is_advised_only_where_that_is_near(gang: int, has: int, said: str) -> None:
    """One of eight is no advice."""
    told = too_few(Need(gang, 1), has, 0, f"local[{has}]")
    assert told.endswith(said)
    assert f"open the session with master local[{gang + 1}]" in told
