"""What was touched between two snapshots, for as long as a segment may have to hold it."""

from __future__ import annotations

from headgate.state.changelog.noting import Changes, Touched


class Epochs:
    """What was touched, by the checkpoint that was the first one to see them changed.

    Example:
        >>> epochs = Epochs()
        >>> epochs.close(1, {"count": {"a": 1}})
        >>> epochs.close(2, {"count": {"a": 2, "b": 1}})
        >>> epochs.close(3, {"names": {"c"}})
        >>> epochs.since(0), epochs.since(2)
        ({'count': {'a': 2, 'b': 1}, 'names': {'c'}}, {'names': {'c'}})
        >>> epochs.forget(2)
        >>> epochs.since(0)
        {'names': {'c'}}
    """

    def __init__(self) -> None:
        self._epochs: list[tuple[int, Changes]] = []

    def close(self, checkpoint: int, changes: Changes) -> None:
        """A snapshot is drawn: what follows belongs to the next one."""
        if changes:
            self._epochs.append((checkpoint, changes))

    def since(self, checkpoint: int) -> Changes:
        """What was touched after one checkpoint and before the last one closed."""
        found: Changes = {}
        for number, changes in self._epochs:
            if number > checkpoint:
                for name, touched in changes.items():
                    found[name] = _joined(found[name], touched) if name in found else touched
        return found

    def forget(self, checkpoint: int) -> None:
        """Nobody asks for what a checkpoint and those before it saw."""
        self._epochs = [(number, changes) for number, changes in self._epochs if number > checkpoint]


def _joined(older: Touched, newer: Touched) -> Touched:
    if isinstance(older, dict) and isinstance(newer, dict):
        return older | newer
    return set(older) | set(newer)


class Waste:
    """What was noted for nothing, let go of bit by bit: a million entries at once would be a long pause.

    Example:
        >>> waste = Waste()
        >>> waste.add({"names": {"a", "b"}, "count": {"c": 1}})
        >>> waste.settle(2), waste.settle(2), waste.settle(2)
        (False, True, True)
    """

    def __init__(self) -> None:
        self._left: list[Touched] = []

    def add(self, changes: Changes) -> None:
        """These are nobody's but the caller's."""
        self._left += changes.values()

    def settle(self, budget: int) -> bool:
        """Let go of at most `budget` entries; True when none are left."""
        while self._left:
            touched = self._left[-1]
            pop = touched.popitem if isinstance(touched, dict) else touched.pop
            for _ in range(min(budget, len(touched))):
                pop()
                budget -= 1
            if touched:
                return False
            self._left.pop()
        return True
