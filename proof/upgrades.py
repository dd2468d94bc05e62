"""Upgrades, judged and restored: python -m proof.upgrades [--pairs N] [--seed N] [--record FOLDER].

Real savepoints and retained checkpoints of one program are restored by changed versions of it, one or two
changes at a time, chosen by the seed. Before each restore `check-upgrade` judges; both must agree, but for a
strict list. What the restored version writes, timers included, must be what a model of the state says.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headgate.checkpoint.opening import open_checkpoint
from headgate.common.errors import HeadgateError
from headgate.common.settings.state_options import IGNORE_UNCLAIMED_STATE
from headgate.offline import judging
from headgate.offline.upgrade import Verdict
from proof.record import FOLDER, commit, write_json
from proof.upgrade_kinds import KINDS, OLDER
from proof.upgrade_points import BASES, Base, Point, Taken, copied, lines_in, settings_of, take
from proof.upgrade_versions import Version, bag, expected, program, shown

EXPECTED: Final[dict[tuple[str, str, str], str]] = {}
"""(backend, form of what was stored, kind) of pairs whose verdict is known to be wrong, with the reason. A
pair on it that agrees is a failure, like one that disagrees and is not on it."""

WHOLE: Final = 300
"""So many pairs must hold every kind of change often enough, and enough of both ends."""
EACH_LEAST: Final = 5
TOLD_EVERY: Final = 250


@dataclass(frozen=True)
class Pair:
    """An upgrade.

    Attributes:
        number: of the pair.
        base: backend and form of what it begins from.
        kinds: names of the changes.
    """

    number: int
    base: Base
    kinds: tuple[str, ...]

    def version(self) -> Version | None:
        """The changed program; None where the changes cannot be made together."""
        version = Version(config=settings_of(self.base))
        try:
            for kind in self.kinds:
                KINDS[kind](version)
        except (KeyError, AttributeError, TypeError):
            return None
        return version


@dataclass
class Outcome:
    """What became of a pair.

    Attributes:
        pair: which.
        verdict: whether the judge called it restorable.
        told: the judge's words.
        restored: whether it was.
        said: why not.
        wrong: what of the output was not as the model says.
        left: whether the restore said that it leaves something behind.
    """

    pair: Pair
    verdict: bool
    told: str
    restored: bool
    said: str = ""
    wrong: str = ""
    left: bool = False

    @property
    def agrees(self) -> bool:
        """Whether judge, restore and model are of one mind, also about what is left behind."""
        told_left = self.told.startswith(Verdict.LEFT_BEHIND)
        return self.verdict == self.restored and not self.wrong and (told_left == self.left)


def pairs(count: int, seed: int) -> Iterator[Pair]:
    """So many pairs; each kind comes equally often as the first change, in shuffled rounds.

    A second change is one of those that came least often until then.
    """
    chance, names, made = random.Random(seed), list(KINDS), 0
    came = dict.fromkeys(names, 0)
    while True:
        for first in chance.sample(names, len(names)):
            second = min(names, key=lambda name: (came[name], chance.random()))
            kinds = (first,) if chance.random() < 0.6 else (first, second)
            pair = Pair(made, chance.choice(BASES), kinds)
            if len({*kinds}) != len(kinds) or pair.version() is None:
                pair = Pair(made, pair.base, kinds[:1])
            for kind in pair.kinds:
                came[kind] += 1
            yield pair
            made += 1
            if made == count:
                return


class Upgrades:
    """Makes the snapshots when they are asked for, and carries out pairs over them.

    Args:
        root: folder for everything.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._taken: dict[Base, Taken] = {}

    def taken(self, base: Base) -> Taken:
        """The snapshots of the first version."""
        if base not in self._taken:
            self._taken[base] = take(base, self._root / "-".join(base).replace(" ", "-"))
        return self._taken[base]

    def prepared(self, pair: Pair) -> tuple[Path, Path]:
        """A folder of the pair's own, and the snapshot in it."""
        folder, version, taken = self._root / f"pair-{pair.number}", pair.version(), self.taken(pair.base)
        assert version is not None
        copied(taken, folder)
        if version.first is not None:
            before = Version(config=settings_of(pair.base) | version.first)
            program(before, folder).execute("words", str(folder / taken.newest.place))
        return folder, folder / _begun_from(version, taken).place

    def judged(self, pair: Pair, folder: Path, snapshot: Path) -> tuple[bool, str]:
        """Whether the judge calls the pair restorable, and its words."""
        version = pair.version()
        assert version is not None
        try:
            env = program(version, folder)
            plan = env.plan("words")
            disk, metadata = open_checkpoint(str(snapshot))
            config = env._settings
            allow = config.get(IGNORE_UNCLAIMED_STATE)
            judge = judging.Judgement(disk, metadata, env.program.nodes(), plan, allow, config)
            report = judge.report(str(snapshot), "words")
        except HeadgateError as error:
            return False, f"{type(error).__name__}: {error}"
        items = [f"{i.part} {i.name}: {i.verdict} ({i.why})" for o in report.operators for i in o.items]
        return report.restorable, "; ".join([report.verdict.value, *report.refusals, *items])

    def carry_out(self, pair: Pair) -> Outcome:
        """Judge, restore, compare."""
        folder, snapshot = self.prepared(pair)
        verdict, told = self.judged(pair, folder, snapshot)
        version = pair.version()
        assert version is not None
        outcome = Outcome(pair, verdict, told, restored=True)
        try:
            with _skipped() as skipped:
                program(version, folder).execute("words", str(snapshot))
        except HeadgateError as error:
            outcome.restored, outcome.said = False, f"{type(error).__name__}: {error}"
        else:
            outcome.left = bool(skipped)
            outcome.wrong = _compared(version, folder, self.taken(pair.base))
        shutil.rmtree(folder, ignore_errors=True)
        return outcome


@contextmanager
def _skipped() -> Iterator[list[str]]:
    """What a restore logs of parts that it leaves behind; nothing of it is shown."""
    found: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "skipped" in record.getMessage():
                found.append(record.getMessage())

    listening, logger = Listening(), logging.getLogger("headgate")
    logger.addHandler(listening)
    try:
        yield found
    finally:
        logger.removeHandler(listening)


def _begun_from(version: Version, taken: Taken) -> Point:
    return taken.older if version.older else taken.newest


def _compared(version: Version, folder: Path, taken: Taken) -> str:
    """What the whole output lacks or has too many, in words."""
    point = _begun_from(version, taken)
    published = shown(taken.published)
    if version.first is not None:
        newest = taken.newest
        published = shown(newest.before) + expected(Version(), newest.before, newest.flying)
    held = Counter[str]() if version.unpublished else shown(point.before)
    kept = held if version.config.get(OLDER) == "take-back" else published | held
    wanted = kept + expected(version, point.before, point.flying)
    found = bag(lines_in(folder / version.place))
    if found == wanted:
        return ""
    missing, more = wanted - found, found - wanted
    return f"missing {sum(missing.values())}: {[*missing][:2]}, too many {sum(more.values())}: {[*more][:2]}"


def surprises(
    outcomes: Sequence[Outcome], strict: dict[tuple[str, str, str], str] | None = None
) -> list[str]:
    """Disagreements that are not on the strict list, and entries of it that agree."""
    known = EXPECTED if strict is None else strict
    found = []
    for one in outcomes:
        listed = [(*one.pair.base, kind) for kind in one.pair.kinds if (*one.pair.base, kind) in known]
        if one.agrees == bool(listed):
            what = "agrees, but is on the strict list" if listed else "disagrees"
            found.append(
                f"pair {one.pair.number} ({', '.join(one.pair.kinds)}; {', '.join(one.pair.base)}) {what}: "
                "judged "
                f"{'restorable' if one.verdict else 'refused'} ({one.told[:300]}), "
                f"{'restored' if one.restored else 'refused'} {one.said[:300]} {one.wrong}"
                f"{' left something behind' if one.left else ''}"
            )
    return found


def shortfalls(found: dict[str, Any]) -> list[str]:
    """What of the counts is too little for the pairs to prove anything.

    Args:
        found: what :func:`facts` gave.
    """
    pairs, short = found["pairs"], []
    for what, least in (("restored_with_a_change", 0.3), ("refused", 0.3), ("two_at_a_time", 0.15)):
        if found[what] < least * pairs:
            short.append(f"{what}: {found[what]} of {pairs} pairs, expected at least {least:.0%}")
    rare = [kind for kind in KINDS if found["kinds"].get(kind, 0) < EACH_LEAST]
    return short + [f"kinds that came less than {EACH_LEAST} times: {', '.join(rare)}"] * bool(rare)


def facts(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Counts for the record."""
    restored = [one for one in outcomes if one.restored]
    return {
        "pairs": len(outcomes),
        "restored_with_a_change": sum(one.pair.kinds != ("nothing",) for one in restored),
        "refused": len(outcomes) - len(restored),
        "two_at_a_time": sum(len(one.pair.kinds) > 1 for one in outcomes),
        "kinds": dict(sorted(Counter(itertools.chain(*(one.pair.kinds for one in outcomes))).items())),
        "strict_list": [[*key, why] for key, why in EXPECTED.items()],
        "surprises": surprises(outcomes),
    }


def main(arguments: Sequence[str]) -> int:
    """Carry out pairs; 0 where nothing surprised, and enough of everything came."""
    parser = argparse.ArgumentParser(prog="python -m proof upgrades", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, default=None, help=f"folder for the record, such as {FOLDER}")
    parser.add_argument("--results", type=Path, help="file for the counts alone")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headgate-upgrades-") as folder:
        upgrades = Upgrades(Path(folder))
        outcomes = []
        for pair in pairs(options.pairs, options.seed):
            outcomes.append(upgrades.carry_out(pair))
            if text := surprises(outcomes[-1:]):
                print(text[0], flush=True)
            if len(outcomes) % TOLD_EVERY == 0:
                print(f"{len(outcomes)} pairs after {time.monotonic() - began:.0f} s", flush=True)
    found = facts(outcomes) | {"seed": options.seed, "duration_s": round(time.monotonic() - began)}
    found["shortfalls"] = shortfalls(found) if options.pairs >= WHOLE else []
    counts = {key: value for key, value in found.items() if isinstance(value, int)}
    print(counts, f"{len(found['surprises'])} surprises", *found["shortfalls"], sep="\n")
    if options.results is not None:
        write_json(found, options.results)
    if options.record is not None:
        head, changed = commit()
        path = options.record / "upgrades.json"
        content = {"what": "upgrades, judged and restored", "commit": head, "uncommitted_changes": changed}
        path.write_text(json.dumps(content | found, indent=2) + "\n", encoding="utf-8")
        print(f"record in {path}")
    return 1 if found["surprises"] or found["shortfalls"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
