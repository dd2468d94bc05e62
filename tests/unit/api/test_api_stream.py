"""The verbs of streams: what they build, what they infer, and what they refuse at the user's line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import pytest
from api_fakes import Count, Numbers, Plain, Shelf, Split

import headgate as hg
from headgate.common.errors import PlanError
from headgate.graph import logical
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Rebalance

HERE = r"test_api_stream\.py:\d+"


def last(env: hg.Environment) -> logical.Node:
    """The node written last."""
    return env.program.nodes()[-1]


def test_functions_stay_as_they_are_in_the_nodes() -> None:
    """Neither wrapped nor copied, so that the runtime sees the user's own."""
    env = hg.Environment()
    stream = env.from_source(Numbers())
    double, split, count, shelf = (lambda n: 2 * n), Split(), Count(), Shelf()
    stream.map(double).process(split).key_by(len).process(count).sink_to(shelf)
    _, mapped, processed, travels, keyed, sink = env.program.nodes()
    assert isinstance(mapped, logical.MapNode)
    assert mapped.function is double
    assert isinstance(processed, logical.ProcessNode)
    assert processed.function is split
    assert isinstance(travels, logical.PartitionNode)
    assert travels.partitioner == ByKeyGroup(len)
    assert isinstance(keyed, logical.KeyedProcessNode)
    assert (keyed.function, keyed.key) == (count, len)
    assert isinstance(sink, logical.SinkNode)
    assert sink.sink is shelf


@pytest.mark.parametrize(
    ("build", "partitioner"),
    [
        (lambda s: s.rebalance(), Rebalance()),
        (lambda s: s.broadcast(), Broadcast()),
        (lambda s: s.key_by("a"), ByKeyGroup("a")),
        (lambda s: s.key_by("a", "b"), ByKeyGroup(("a", "b"))),
        (lambda s: s.group_by("a"), ByKeyGroup("a")),
    ],
)
def test_partitioning_verbs(build: object, partitioner: object) -> None:
    """Each verb writes its partitioner."""
    env = hg.Environment()
    build(env.from_source(Numbers()))  # type: ignore[operator]
    node = last(env)
    assert isinstance(node, logical.PartitionNode)
    assert node.partitioner == partitioner


def test_uid_name_and_parallelism_replace_what_later_nodes_see() -> None:
    """A node that is named after it was used is seen with its name by all consumers."""
    env = hg.Environment()
    mapped = env.from_source(Numbers()).map(str)
    mapped.sink_to(Shelf())
    assert mapped.uid("m").name("texts").set_parallelism(3) is mapped
    node = last(env).inputs[0]
    assert (node.uid, node.name, node.parallelism) == ("m", "texts", 3)


@pytest.mark.parametrize("change", [lambda s: s.uid("x"), lambda s: s.set_parallelism(2)])
def test_what_is_no_operator_takes_no_uid_and_no_parallelism(change: object) -> None:
    """A union or a partitioning only says how records travel."""
    stream = hg.Environment().from_source(Numbers()).rebalance()
    with pytest.raises(hg.PlanError, match=rf"rebalance\(\) \({HERE}\).*only says how records travel"):
        change(stream)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.map("upper"), "map.*expected a function"),
        (lambda s: s.flat_map(None), "flat_map.*expected a function"),
        (lambda s: s.filter(3), "filter.*expected a function"),
        (lambda s: s.process(Count()), "got Count; expected a ProcessFunction"),
        (lambda s: s.key_by("a").process(Split()), "got Split; expected a KeyedProcessFunction"),
        (lambda s: s.key_by(""), "key_by.*field names"),
        (lambda s: s.key_by(3), "key_by.*field names, or one function"),
        (lambda s: s.key_by("a", "a"), "key_by.*different"),
        (lambda s: s.key_by(len, "a"), "key_by"),
        (lambda s: s.select(), "select"),
        (lambda s: s.select("a", 1), "select.*got 1"),
        (lambda s: s.union(), "union.*got no stream"),
        (lambda s: s.union([s]), "union.*got list"),
        (lambda s: s.union(hg.Environment().from_source(Numbers())), "same Environment"),
        (lambda s: s.sink_to(print), "sink_to.*expected a Sink"),
        (lambda s: s.with_event_time(7), "with_event_time.*field or a function"),
        (lambda s: s.with_event_time("t", "-1s"), "out_of_orderness is '-1s'"),
        (lambda s: s.with_event_time("t", -1), "out_of_orderness is -1"),
        (lambda s: s.with_event_time("t", 0, "-2h"), "idleness is '-2h'"),
        (lambda s: s.with_watermarks(hg.WatermarkStrategy("t", -1)), "out_of_orderness_ms .* is -1"),
        (lambda s: s.map(str).side_output(hg.OutputTag("late")), "'late'.*which has none"),
    ],
)
def test_wrong_arguments_are_refused_at_the_users_line(build: object, message: str) -> None:
    """One sentence with the verb, the place, what it got and what it expected."""
    with pytest.raises(hg.PlanError, match=message) as caught:
        build(hg.Environment().from_source(Numbers()))  # type: ignore[operator]
    assert "test_api_stream.py:" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda e: e.from_source("x"), "from_source.*expected a Source"),
        (lambda e: e.generate(3), "generate.*expected a function"),
        (lambda e: e.generate(str, count=0), "count of generate"),
        (lambda e: e.generate(str, rate_per_s=-1), "rate_per_s of generate"),
        (lambda e: e.read_json("x", on_error="ignore"), "on_error of read_json.*'side-output'"),
    ],
)
def test_wrong_arguments_of_sources_are_refused(build: object, message: str) -> None:
    """As for streams."""
    with pytest.raises(hg.PlanError, match=message):
        build(hg.Environment())  # type: ignore[operator]


def test_record_types_follow_the_annotations() -> None:
    """Nodes carry what annotations say of their records, and None where they say nothing."""

    def words(text: str) -> Iterable[str]:
        return text.split()

    def length(text: str) -> int:
        return len(text)

    env = hg.Environment()
    split = env.from_source(Numbers()).filter(bool).process(Split())
    late = split.side_output(hg.OutputTag[bytes]("late"))
    named = split.flat_map(words).map(length)
    named.union(env.from_collection([1, 2]).with_event_time(lambda n: n))
    named.union(env.from_collection([1, "b"]))
    late.key_by(len).process(Plain()).map(lambda n: n)
    kinds = [(type(n).__name__.removesuffix("Node"), n.record_type) for n in env.program.nodes()]
    assert kinds == [
        ("Source", int),
        ("Filter", int),
        ("Process", str),
        ("SideOutput", bytes),
        ("FlatMap", str),
        ("Map", int),
        ("Source", int),
        ("Timestamps", int),
        ("Union", int),
        ("Source", None),
        ("Union", None),
        ("Partition", bytes),
        ("KeyedProcess", int),
        ("Map", None),
    ]


def test_watermarks_of_a_source_stand_right_behind_it() -> None:
    """`from_source(watermarks=...)` writes the event-time node and keeps the source's parallelism."""
    env = hg.Environment(parallelism=4)
    strategy = hg.WatermarkStrategy.of("at", "1s", idleness="1min")
    env.from_source(Numbers(), watermarks=strategy, parallelism=1, name="in").sink_to(Shelf())
    source, times, _ = env.program.nodes()
    assert (source.name, source.parallelism) == ("in", 1)
    assert isinstance(times, logical.TimestampsNode)
    assert times.strategy == hg.WatermarkStrategy("at", 1000, 60_000)
    assert [v.name for v in env.plan().vertices] == ["in -> event time", "Shelf"]


def test_files_name_themselves() -> None:
    """What is read or written by path has a uid made from the path, so the first example needs none."""
    from headgate.api.checking.arguments import path_uid

    assert path_uid("read_json", "/data/in/*.jsonl.gz") == "read_json:data-in-.jsonl.gz"
    assert path_uid("read_json", ["a.json", "b.json"]) == "read_json:a.json-b.json"
    assert len(path_uid("read_json", "x" * 500)) == 200


@dataclasses.dataclass
class _Commit:
    author: str
    author_ms: int


def test_a_field_that_the_schema_lacks_is_refused_with_the_nearest(tmp_path: Path) -> None:
    """Before anything runs, also behind a filter; what the records do have passes."""
    (tmp_path / "in.jsonl").write_text("")
    commits = hg.Environment().read_json(tmp_path / "in.jsonl", schema=_Commit)
    with pytest.raises(PlanError, match=r"names 'autor', which _Commit does not have; did you mean 'author'"):
        commits.filter(bool).key_by("autor")
    with pytest.raises(PlanError, match="did you mean 'author_ms'"):
        commits.with_event_time("autor_ms")
    commits.with_event_time("author_ms").key_by("author")


def test_a_field_of_unsure_records_is_not_refused(tmp_path: Path) -> None:
    """Annotations of functions bind nobody, and dicts have whatever they have."""
    (tmp_path / "in.jsonl").write_text("")
    rows = hg.Environment().read_json(tmp_path / "in.jsonl")
    rows.key_by("anything")

    def made(_: object) -> _Commit: ...  # type: ignore[empty-body]

    rows.map(made).key_by("anything")


def test_paths_of_pathlib_are_paths(tmp_path: Path) -> None:
    """Whoever has a Path need not make text of it, and the uid is the same either way."""
    (tmp_path / "in.jsonl").write_text("")
    programs = [hg.Environment(), hg.Environment()]
    for env, kind in zip(programs, (str, Path), strict=True):
        env.checkpoints("1s", storage=kind(tmp_path / "checkpoints"))
        env.read_json(kind(tmp_path / "in.jsonl")).write_json(kind(tmp_path / "out"))
        env.read_csv([kind(tmp_path / "in.jsonl")]).write_parquet(kind(tmp_path / "out-parquet"))
    text, path = ([node.uid for node in env.program.nodes()] for env in programs)
    assert text == path
    assert programs[0].settings == programs[1].settings


def test_a_field_of_a_class_without_fields_is_refused() -> None:
    """There is no nearest one."""

    @dataclasses.dataclass
    class Empty:
        """No field."""

    with pytest.raises(PlanError, match=r"names 'x', which .*Empty does not have; it has no field"):
        hg.Environment().read_json("x", schema=Empty).key_by("x")
