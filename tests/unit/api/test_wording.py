"""Refusals name what the program wrote, where it wrote it, and what could be."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.api.streams import other_names
from headgate.connectors.dataframe.to_spark_staging import staged_parquet
from headgate.connectors.files.part_file import PartFile
from headgate.connectors.files.sink import ParquetFormat
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


@dataclass
class Nested:
    n: int
    inner: Nested | None = None


@dataclass
class Odd:
    n: complex


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (Nested(1), "Nested contains itself; store it flat"),
        (Odd(1j), "no serializer is known for complex"),
        (Odd("a"), "no serializer is known for complex"),  # type: ignore[arg-type]
    ],
)
def test_a_record_whose_class_cannot_come_is_told_with_the_reason(record: Any, said: str) -> None:
    """A dataclass is not told to be a dataclass; the field is named that no serializer is known for."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    with pytest.raises(hg.HeadgateError, match=said) as caught:
        env.from_collection([0]).map(lambda n: record).collect()
    assert "expected plain values or records" not in str(caught.value)


@dataclass
class Counted:
    name: str
    value: int


def test_a_record_with_another_value_than_declared_is_told_with_the_reason() -> None:
    """Where the value is one that no plain form holds either."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    stream = env.from_collection([0]).map(lambda n: Counted("a", 1j))  # type: ignore[arg-type]
    with pytest.raises(hg.HeadgateError, match=r"collect\(\) got .*Counted.*complex"):
        stream.collect()


@pytest.mark.parametrize("verb", ["take", "preview", "collect"])
def test_text_that_cannot_come_is_told_under_the_verb_that_asked(verb: str) -> None:
    """Half of a pair of surrogates is no character."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    stream = env.from_collection([1]).map(lambda n: "\ud800")
    with pytest.raises(hg.HeadgateError, match=rf"{verb}\(\) got text that is not valid Unicode"):
        getattr(stream, verb)(*([] if verb == "collect" else [1]))


@pytest.mark.parametrize(
    ("sink", "verb"),
    [
        (lambda: ParquetFormat(None), "write_parquet"),
        (lambda: staged_parquet("staged", None).format, "to_spark"),
    ],
)
def test_columns_that_do_not_fit_are_told_under_the_verb_that_writes_them(
    sink: Callable[[], Any], verb: str, tmp_path: Path
) -> None:
    """Rows for Spark are staged by the sink of Parquet files, which the program has not called."""
    part = PartFile(tmp_path / "part")
    writer = sink().opener()(part)
    writer.write([{"n": 1}])
    with pytest.raises(hg.HeadgateError, match=rf"give {verb}\(schema=\.\.\.\) or convert the records"):
        writer.write([{"n": "one"}])
    part.discard()


@pytest.mark.parametrize("verb", ["to_dataframe", "to_dataframe_later"])
def test_a_schema_of_a_dataframe_is_told_under_its_verb(verb: str) -> None:
    """One of them looks, the other one is a sink."""
    stream = hg.Environment(executor=MiniCluster()).from_collection([{"n": 1}])
    with pytest.raises(hg.UsageError, match=rf"{verb}\(\) got a schema of type int"):
        getattr(stream, verb)(schema=5)


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


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (
            lambda stream: stream.key_by("author").map(str),
            r"^a stream after key_by\(\) has no map\(\) \(test_wording\.py:\d+\): call it before key_by\(\)",
        ),
        (
            lambda stream: stream.key_by("author").count(),
            r"^KeyedStream has no 'count' \(test_wording\.py:\d+\): counts, sums and the like",
        ),
        (
            lambda stream: stream.show(),
            r"'show' \(test_wording\.py:\d+\): what others call show is preview\(\)",
        ),
        (lambda stream: stream.keyBy("author"), r"what others call keyBy is key_by\(\) here"),
        (lambda stream: stream.nothing, r"^DataStream has no 'nothing'$"),
    ],
)
def test_a_method_that_a_stream_does_not_have(ask: Callable[[Any], Any], said: str) -> None:
    """The names of Spark and Flink lead to those that are here."""
    stream = hg.Environment(executor=MiniCluster()).from_collection([{"author": "ada"}])
    with pytest.raises(AttributeError, match=said):
        ask(stream)
    assert not hasattr(stream, "nothing")
    assert not hasattr(stream.key_by("author"), "_nothing")


def test_a_method_that_a_program_does_not_have() -> None:
    """Likewise."""
    env = hg.Environment(executor=MiniCluster())
    with pytest.raises(AttributeError, match=r"what others call from_elements is from_collection\(\) here"):
        env.from_elements(1, 2)
    with pytest.raises(AttributeError, match=r"^Environment has no 'nothing'$"):
        _ = env.nothing


def test_the_names_of_others_lead_to_methods_that_exist() -> None:
    """Of streams and of programs."""
    for cls, calls in (
        (hg.Environment, other_names._PROGRAM_CALLS),
        (hg.DataStream, other_names._STREAM_CALLS),
    ):
        for here, others in calls.items():
            assert callable(getattr(cls, here)), here
            assert not [other for other in others.split() if hasattr(cls, other)]


def test_a_keyed_stream_can_be_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    """And printed; as before its key."""
    env = hg.Environment(parallelism=2, executor=MiniCluster())
    keyed = env.from_collection(range(6)).key_by(lambda n: n % 2)
    assert sorted(keyed.collect()) == list(range(6))
    assert (len(keyed.take(2)), len(keyed.preview(3))) == (2, 3)
    keyed.print()
    env.execute()
    printed = re.findall(r"print\[\d\]: (\d)", "".join(capsys.readouterr()))
    assert sorted(printed) == list("012345")


def test_a_refusal_has_no_frames_of_headgate() -> None:
    """Below the program's own line there is the sentence, not the way through Headgate to it."""
    env = hg.Environment(executor=MiniCluster())
    stream = env.from_collection([1])
    for refused in (
        lambda: env.execute("nothing"),
        lambda: stream.take(0),
        lambda: stream.map(lambda n: 1 / n).map(lambda n: n + "").preview(),
        lambda: env.checkpoints(interval="1s"),
    ):
        with pytest.raises(hg.UsageError) as caught:
            refused()  # type: ignore[no-untyped-call]
        files = {Path(frame.filename).name for frame in traceback.extract_tb(caught.value.__traceback__)}
        assert files <= {"test_wording.py", "calls.py"}, files


def test_a_refusal_out_of_the_programs_own_code_keeps_its_frames() -> None:
    """Where Headgate called the program, the way to the mistake leads through both."""

    def numbers() -> Iterator[int]:
        yield 1
        raise hg.ConfigError("not on a Sunday")

    with pytest.raises(hg.ConfigError, match="not on a Sunday") as caught:
        hg.Environment(executor=MiniCluster()).from_collection(numbers())
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert {"numbers", "from_collection"} <= set(names)
