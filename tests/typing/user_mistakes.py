"""Mistakes that the type checker must find: each line below ends with the error code it deserves."""

from __future__ import annotations

from collections.abc import Iterator

import headgate as hg


class Words(hg.ProcessFunction[str, bytes]):
    """Takes text."""

    def process(self, record: str, ctx: object) -> Iterator[bytes]:
        """Encode."""
        yield record.encode()


class Mean(hg.AggregateFunction[int, list[int], float]):
    """Takes whole numbers."""

    def create_accumulator(self) -> list[int]:
        """Nothing yet."""
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        """One more."""
        return [*accumulator, value]

    def get_result(self, accumulator: list[int]) -> float:
        """The mean."""
        return sum(accumulator) / len(accumulator)


class Total(hg.KeyedProcessFunction[str, int, int]):
    """Takes numbers by text."""

    total: hg.ValueState[int] = hg.value_state(default=0)
    longest: hg.ReducingState[str] = hg.reducing_state(int.__add__)  # expect: arg-type
    letters: hg.ReducingState[str] = hg.reducing_state(len)  # expect: arg-type
    mean: hg.AggregatingState[int, float] = hg.aggregating_state(Mean())
    shown: hg.AggregatingState[int, str] = hg.aggregating_state(Mean())  # expect: arg-type

    def process(self, record: int, ctx: hg.KeyedContext[str]) -> Iterator[int]:
        """Add."""
        self.total.value = "none"  # expect: assignment
        self.longest.add(record)  # expect: arg-type
        self.mean.add("one")  # expect: arg-type
        yield self.total.value


@hg.blocking
def shout(text: str) -> str:
    """Takes text."""
    return text.upper()


env = hg.Environment()
numbers = env.from_collection([1, 2])
numbers.map(str.upper)  # expect: arg-type
numbers.map(lambda n: n.upper())  # expect: attr-defined
numbers.map(shout)  # expect: arg-type
numbers.flat_map(lambda n: n)  # expect: arg-type, return-value
numbers.process(Words())  # expect: arg-type
numbers.union(env.from_collection(["a"]))  # expect: list-item
numbers.key_by(lambda n: n).process(Total())  # expect: arg-type
numbers.key_by(3)  # expect: call-overload
numbers.process(Total())  # expect: arg-type
numbers.key_by(str).process(Words())  # expect: arg-type
env.read_json("x", on_error="ignore")  # expect: call-overload
env.explain(format="yaml")  # expect: arg-type
numbers.connect(numbers)  # expect: arg-type
numbers.key_by(abs).connect(numbers.broadcast()).process(Total())  # expect: arg-type
