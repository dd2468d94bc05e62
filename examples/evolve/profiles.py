"""Three versions of one program: what it keeps of an author changes each time, and nothing is lost.

In life there is one class, which is edited. Here the versions stand side by side under names of their
own, so `@hg.formerly` says which class each one was before. `run.py` runs them one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import headgate as hg

Commit = dict[str, Any]
Line = dict[str, Any]


# -- version 1


@dataclass(frozen=True)
class Profile1:
    """What is known of an author."""

    commits: int = 0
    lines: int = 0


class Version1(hg.KeyedProcessFunction[str, Commit, Line]):
    """Counts; a record with "ask" wants to know and changes nothing."""

    profile: hg.ValueState[Profile1] = hg.value_state(default=Profile1())
    size: hg.ValueState[Literal["small", "large"]] = hg.value_state(default="small")

    def process(self, commit: Commit, ctx: hg.KeyedContext[str]) -> Iterator[Line]:
        known = self.profile.value
        if "ask" in commit:
            yield {**commit, "profile": asdict(known), "size": self.size.value}
            return
        self.profile.value = Profile1(known.commits + 1, known.lines + commit["insertions"])
        self.size.value = "large" if commit["insertions"] > 100 else "small"


# -- version 2


@hg.formerly(f"{__name__}.Profile1")
@dataclass(frozen=True)
class Profile2:
    """A field renamed, one widened (a deleted line counts half), one added."""

    count: Annotated[int, hg.alias("commits")] = 0
    lines: float = 0.0
    repo: str | None = None


class Version2(hg.KeyedProcessFunction[str, Commit, Line]):
    """Counts on; a size may be one more thing."""

    profile: hg.ValueState[Profile2] = hg.value_state(default=Profile2())
    size: hg.ValueState[Literal["small", "large", "huge"]] = hg.value_state(default="small")

    def process(self, commit: Commit, ctx: hg.KeyedContext[str]) -> Iterator[Line]:
        known = self.profile.value
        if "ask" in commit:
            yield {**commit, "profile": asdict(known), "size": self.size.value}
            return
        lines = commit["insertions"] + commit["deletions"] / 2
        self.profile.value = Profile2(known.count + 1, known.lines + lines, commit["repo"])
        self.size.value = "huge" if lines > 1000 else "large" if lines > 100 else "small"


# -- version 3


@dataclass(frozen=True)
class Place:
    """Where and when a commit was made."""

    repo: str
    at_ms: int


@hg.formerly(f"{__name__}.Profile2")
@dataclass(frozen=True)
class Profile3:
    """A field removed, and a record inside the record added."""

    count: int = 0
    lines: float = 0.0
    last: Place | None = None


class Version3(hg.KeyedProcessFunction[str, Commit, Line]):
    """Counts on; keeps the most files of a commit beside it."""

    profile: hg.ValueState[Profile3] = hg.value_state(default=Profile3())
    size: hg.ValueState[Literal["small", "large", "huge"]] = hg.value_state(default="small")
    most_files: hg.ReducingState[int] = hg.reducing_state(max)

    def process(self, commit: Commit, ctx: hg.KeyedContext[str]) -> Iterator[Line]:
        known = self.profile.value
        if "ask" in commit:
            most_files = self.most_files.get()
            yield {**commit, "profile": asdict(known), "size": self.size.value, "most_files": most_files}
            return
        lines = commit["insertions"] + commit["deletions"] / 2
        last = Place(commit["repo"], commit["author_ms"])
        self.profile.value = Profile3(known.count + 1, known.lines + lines, last)
        self.size.value = "huge" if lines > 1000 else "large" if lines > 100 else "small"
        self.most_files.add(commit["files"])
