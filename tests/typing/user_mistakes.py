"""Mistakes that the type checker must find: each line below ends with the error code it deserves."""

from __future__ import annotations

from collections.abc import Iterator

import headgate as hg


class Words(hg.ProcessFunction[str, bytes]):
    """Takes text."""

    def process(self, record: str, ctx: object) -> Iterator[bytes]:
        """Encode."""
        yield record.encode()


class Total(hg.KeyedProcessFunction[str, int, int]):
    """Takes numbers by text."""

    total: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[str]) -> Iterator[int]:
        """Add."""
        self.total.value = "none"  # expect: assignment
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
