"""Jobs whose functions need modules from beside the program, --py-files, an archive, an artifact.

dependent.py <artifact.py or -> [master]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import beside
from pyspark.sql import SparkSession

import headgate as hg

COUNT = 200

artifact, *master = sys.argv[1:]
packed = artifact != "-"


class Told(hg.KeyedProcessFunction[int, beside.Word, tuple[str, int, str, str]]):
    """What a worker knows, and where it has it from."""

    def process(self, record: beside.Word, ctx: hg.KeyedContext[int]) -> Iterator[tuple[str, int, str, str]]:
        said = "-"
        if packed:
            from from_py_files import said  # type: ignore[import-not-found]

            said += Path("words/greeting.txt").read_text(encoding="utf-8")
        yield record.text, record.length, said, f"{beside.__file__} {hg.__file__}"


def decorated(word: beside.Word) -> str:
    """With a module that came after the session had been opened."""
    from from_artifact import DECORATION  # type: ignore[import-not-found]

    return f"{DECORATION}{word.text}{DECORATION}"


def environment(spark: SparkSession | None = None) -> hg.Environment:
    """On all slots of the cluster: two workers of two cores."""
    config = {"headgate.spark.reserved-slots": 0, "headgate.spark.slots-timeout": "3min"}
    env = hg.Environment(parallelism=4, config=config, spark=spark)
    return env.config("headgate.spark.master", master[0]) if master else env


def main() -> None:
    """Run both."""
    words = environment().from_collection(range(COUNT), uid="numbers").map(beside.measured)
    found = words.key_by("number").process(Told(), uid="told").collect("dependent")
    assert len(found) == COUNT
    for text, length, said, places in sorted(set(found)):
        print(f"told {text} {length} {said}", flush=True)
        print(f"from {places}", flush=True)
    if packed:
        spark = SparkSession.builder.getOrCreate()
        spark.addArtifact(artifact, pyfile=True)
        again = environment(spark).from_collection(range(COUNT), uid="numbers").map(beside.measured)
        print(f"decorated {sorted(set(again.rebalance().map(decorated).collect('decorated')))}", flush=True)


main()
