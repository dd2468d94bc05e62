"""Tests of state handles as a program uses them: values by key, of every kind of state."""

from __future__ import annotations

import pytest

from headgate.common.errors import InternalError, UsageError
from headgate.common.keys.keygroups import key_group
from headgate.serde.resolve import serializer_for
from headgate.testing.suites.backend.bench import Bench
from headgate.testing.suites.backend.states import GROUPS, KEYS, STATES, Basket, bound, contents, touch
from headgate.testing.suites.backend.suite_bench import BackendTests


class HandleTests(BackendTests):
    """Tests that keys are isolated, that each kind of state works, and that reads change nothing."""

    def test_value_state_reads_its_default_and_drops_it(self, bench: Bench) -> None:
        """An absent key reads as the default; storing the default, or clearing, removes the entry."""
        backend = bench.backend()
        count = backend.handles["count"]
        for key, value in (("a", 5), ("b", 6)):
            with bound(backend, key):
                assert count.value == 0
                count.value = value
        assert dict(backend.scan("count")) == {"a": 5, "b": 6}
        with bound(backend, "a"):
            count.clear()
        with bound(backend, "b"):
            count.value = 0
        assert dict(backend.scan("count")) == {}

    def test_what_is_changed_in_place_is_kept(self, bench: Bench) -> None:
        """A value that is changed in place is stored, also a default that was read; each key has its own."""
        backend = bench.backend()
        for key in ("a", "b", "a"):
            with bound(backend, key) as handles:
                handles["basket"].value.items.append(key)
        assert dict(backend.scan("basket")) == {"a": Basket(["a", "a"]), "b": Basket(["b"])}
        backend.bind("a")
        backend.handles["basket"].clear()
        assert backend.handles["basket"].value == Basket()

    def test_a_default_that_cannot_be_changed_is_not_stored_by_reading(self, bench: Bench) -> None:
        """Reading a default that cannot be changed in place stores no entry for a key without state."""
        backend = bench.backend()
        with bound(backend, "a") as handles:
            assert handles["free"].value is None
            assert handles["best"].get() is None
            assert handles["names"].get() == []
        assert {name: list(backend.keys(name)) for name in STATES} == {name: [] for name in STATES}

    def test_list_state_does_what_it_says(self, bench: Bench) -> None:
        """Add, extend, get, update, clear: an empty list leaves no entry, and get returns a copy."""
        backend = bench.backend()
        names = backend.handles["names"]
        backend.bind("a")
        names.add("1")
        names.extend(["2", "3"])
        names.get().append("not stored")
        assert names.get() == ["1", "2", "3"]
        backend.bind("b")
        names.extend([])
        names.extend(iter(["9"]))
        assert names.get() == ["9"]
        names.update([])
        with bound(backend, "a"):
            names.update(["4"])
        assert dict(backend.scan("names")) == {"a": ["4"]}
        backend.bind("a")
        names.clear()
        assert dict(backend.scan("names")) == {}

    def test_map_state_does_what_it_says(self, bench: Bench) -> None:
        """Put, get, remove, membership, order and length work; an empty map leaves no entry."""
        backend = bench.backend()
        totals = backend.handles["totals"]
        backend.bind("a")
        assert (totals.get("x"), totals.get("x", 7), len(totals), "x" in totals) == (None, 7, 0, False)
        for name, number in [("z", 1), ("x", 2), ("y", 3), ("z", 4)]:
            totals.put(name, number)
        assert (list(totals), len(totals), "y" in totals) == (["z", "x", "y"], 3, True)
        assert list(totals.items()) == [("z", 4), ("x", 2), ("y", 3)]
        totals.remove("x")
        totals.remove("absent")
        totals.put("x", 5)
        assert list(totals) == ["z", "y", "x"]
        for name in totals:
            totals.remove(name)
        backend.store()
        assert dict(backend.scan("totals")) == {}

    def test_map_state_takes_square_brackets(self, bench: Bench) -> None:
        """Square brackets read, set and delete in map state as in a dict; an absent key is a KeyError."""
        backend = bench.backend()
        totals = backend.handles["totals"]
        backend.bind("a")
        totals["x"] = 1
        totals["x"] += 1
        totals["y"] = 5
        del totals["y"]
        assert (totals["x"], list(totals.items())) == (2, [("x", 2)])
        with pytest.raises(KeyError, match="y"):
            totals["y"]
        with pytest.raises(KeyError, match="y"):
            del totals["y"]

    def test_folding_states_do_what_they_say(self, bench: Bench) -> None:
        """Add reduces or aggregates a value, get returns the result, clear begins anew."""
        backend = bench.backend()
        handles = backend.handles
        for number in (3, 8, 5):
            backend.bind("a")
            for name in ("best", "mean", "spread"):
                handles[name].add(number)
            handles["bag"].add([number])
            backend.store()
        backend.bind("a")
        found = {name: handles[name].get() for name in ("best", "mean", "spread", "bag")}
        assert found == {"best": 8, "mean": 16 / 3, "spread": 5, "bag": [3, 8, 5]}
        for name in found:
            handles[name].clear()
        backend.store()
        backend.bind("a")
        assert [handles[name].get() for name in found] == [None] * 4

    def test_keys_of_every_sort_are_apart(self, bench: Bench) -> None:
        """Equal keys are one key, as in a dict, whatever their class; different keys are not mixed up."""
        backend = bench.backend()
        for number, key in enumerate([*KEYS, "1", (1,), b"1"], 1):
            touch(backend, key, number)
        for number, key in enumerate([*KEYS, "1", (1,), b"1"], 1):
            backend.bind(key)
            assert backend.handles["count"].value == number
        for equal in (1, 1.0, True):
            with bound(backend, equal) as handles:
                handles["names"].add("again")
        assert dict(backend.scan("names"))[1] == ["s2", "again", "again", "again"]

    def test_many_keys_are_all_there(self, bench: Bench) -> None:
        """State of more keys than a cache may hold is kept, also when it is changed in another order."""
        backend, count = bench.backend(), 2_000
        for step in (1, 7):
            for key in range(count):
                with bound(backend, key * step % count) as handles:
                    handles["count"].value += key * step % count + 1
        assert dict(backend.scan("count")) == {key: 2 * (key + 1) for key in range(count)}
        assert sorted(backend.keys("count"), key=str) == sorted(range(count), key=str)

    def test_a_walk_may_be_put_aside(self, bench: Bench) -> None:
        """A scan may be paused: keys that stay are seen once, while others are added or removed."""
        backend = bench.backend()
        for key in range(100):
            touch(backend, key, key + 1)
        walk = backend.scan("totals")
        seen = [next(walk)[0] for _ in range(10)]
        for key in range(100, 120):
            touch(backend, key, 1)
        left = [key for key in range(100) if key not in seen]
        with bound(backend, left[0]) as handles:
            handles["totals"].clear()
        seen += [key for key, _ in walk]
        assert len(seen) == len(set(seen))
        assert set(range(100)) - {left[0]} <= set(seen)

    def test_a_look_from_outside_gives_stored_bytes(self, bench: Bench) -> None:
        """Peek, used by live queries, returns a key's stored bytes, and changes no state."""
        backend = bench.backend()
        touch(backend, "a", 3)
        before = contents([backend])
        for name in STATES:
            assert backend.peek(name, "absent") is None
            shown = backend.peek(name, "a")
            assert shown is not None
            assert shown.schema == backend.state_types()[name]
        count = backend.peek("count", "a")
        assert count is not None
        assert serializer_for(int).decode_many(count.data, 1) == [3]
        assert contents([backend]) == before

    def test_state_types_describe_every_state(self, bench: Bench) -> None:
        """State types are listed in the order of declaration, with kind and types, and without timers."""
        types = bench.backend().state_types()
        assert list(types) == list(STATES)
        assert types["totals"] == {
            "kind": "map",
            "of": [{"kind": "str", "version": 1}, {"kind": "int", "version": 1}],
        }

    def test_a_value_of_another_type_fails_the_checkpoint_by_state_name(self, bench: Bench) -> None:
        """A value of another type than declared fails the checkpoint: UsageError, with the state's name."""
        backend = bench.backend()
        with bound(backend, "a") as handles:
            handles["count"].value = "many"
        why = r"state 'count' cannot be stored: 'many' of type str is not a int"
        with pytest.raises(UsageError, match=why):
            bench.store(backend)

    def test_a_foreign_key_fails_the_checkpoint(self, bench: Bench) -> None:
        """A key outside the subtask's key groups fails the checkpoint with an InternalError."""
        group = (key_group("a", GROUPS) + 1) % GROUPS
        backend = bench.backend(groups=(group, group))
        with bound(backend, "a") as handles:
            handles["count"].value = 1
        with pytest.raises(InternalError, match="outside its key groups"):
            bench.store(backend)
