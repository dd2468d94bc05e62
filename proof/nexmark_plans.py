"""What a run over Nexmark does: its query and settings, whom it kills and when, and when it changes its
parallelism.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from proof.modes import mode_named
from proof.runs import Form

INTERVAL_MS: Final = 500
SLOTS: Final = 14
"""Six workers at most, as many that were replaced but still hold a slot of Spark, and the one kept free."""

BACKENDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "hashmap": {"state.backend.type": "hashmap"},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "rocksdb, incremental": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True},
}
"""Where keyed state is, and whether checkpoints store only what is new -> its settings."""

NONE, UP, DOWN = "none", "up", "down"
RESCALES: Final = (NONE, UP, DOWN)

KILLS: Final = (1, 1, 2, 3)
RECOVERING: Final = 0.3
"""Share of the further kills that strike a worker which has just replaced another."""


@dataclass(frozen=True)
class Kill:
    """When a worker is killed.

    Attributes:
        share: of the input that has been read; None: at a time after the kill before.
        after_s: seconds after that.
        recovering: count `after_s` from the first new worker, and not from when all subtasks run again.
    """

    share: float | None
    after_s: float = 0.0
    recovering: bool = False

    def __str__(self) -> str:
        if self.share is not None:
            return f"at {self.share:.0%} of the input"
        return f"{self.after_s:.2f} s after {'a new worker came' if self.recovering else 'all ran again'}"


def kills_of(seed: int) -> tuple[Kill, ...]:
    """The kills of a run: one at a random place of its input, and perhaps more afterwards.

    Example:
        >>> kills_of(1)[0].share is not None, kills_of(1) == kills_of(1)
        (True, True)
    """
    chance = random.Random(seed)
    kills = [Kill(chance.uniform(0.03, 0.85))]
    for _ in range(chance.choice(KILLS) - 1):
        recovering = chance.random() < RECOVERING
        kills.append(Kill(None, chance.uniform(0, 0.2 if recovering else 2.0), recovering))
    return tuple(kills)


@dataclass(frozen=True)
class Rescale:
    """When a run goes on at another parallelism, if it does.

    Attributes:
        share: of the input that has been read.
        from_last: whether the last completed checkpoint will do while the job recovers.
    """

    share: float
    from_last: bool

    def __str__(self) -> str:
        last = ", from the last checkpoint if need be" if self.from_last else ""
        return f"at {self.share:.0%} of the input{last}"


def rescale_of(seed: int) -> Rescale:
    """The moment of a run's rescale.

    Example:
        >>> rescale_of(1) == rescale_of(1)
        True
    """
    # Of a generator of its own: the kills of a seed do not depend on it.
    chance = random.Random(f"rescale {seed}")
    return Rescale(chance.uniform(0.05, 0.7), chance.random() < 0.5)


def wider(parallelism: int) -> int:
    """The parallelism that a run has besides, if it changes it.

    Example:
        >>> [wider(narrow) for narrow in (1, 2, 4)]
        [2, 3, 6]
    """
    return parallelism + max(1, parallelism // 2)


@dataclass(frozen=True)
class NexmarkPlan:
    """A run to be made.

    Attributes:
        name: for people.
        seed: decides moments and victims.
        query: by its name.
        parallelism: of the job; the smaller one, if it changes.
        backend: of keyed state, and how checkpoints store it: a key of `BACKENDS`.
        mode: the name of how barriers travel.
        kills: in order.
        rescale: whether it goes on with more subtasks, or with fewer: one of `RESCALES`.
    """

    name: str
    seed: int
    query: str
    parallelism: int
    backend: str
    mode: str
    kills: tuple[Kill, ...]
    rescale: str = NONE

    @property
    def widths(self) -> list[int]:
        """The parallelism at which it begins, and that at which it goes on if it changes."""
        ascending = [self.parallelism, wider(self.parallelism)]
        return {NONE: ascending[:1], UP: ascending, DOWN: ascending[::-1]}[self.rescale]

    @property
    def text(self) -> str:
        """What is run, for people."""
        change = "" if self.rescale == NONE else f" {rescale_of(self.seed)}"
        return (
            f"{self.query}, parallelism {' -> '.join(map(str, self.widths))}{change}, {self.backend}, "
            f"{self.mode} checkpoints, {len(self.kills)} kills, seed {self.seed}"
        )

    @property
    def config(self) -> dict[str, Any]:
        """The settings of its job."""
        more = {**BACKENDS[self.backend], "headgate.spark.master": f"local[{SLOTS}]"}
        form = Form(mode_named(self.mode), self.widths[0], INTERVAL_MS, more=more)
        return {key: value for key, value in form.config().items() if key != "headgate.probe"}
