"""Wrong verdicts, planted into the judge alone: comparing it with the restore must find each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from headgate.common.errors import UsageError
from headgate.offline import judging
from headgate.offline import keyed_verdicts as keyed
from headgate.offline.upgrade import Item, UpgradeReport, Verdict
from headgate.runtime.master.checkpoints.committers import Committers
from headgate.serde.verdicts import AsIs, Incompatible
from headgate.state.operator_state import OperatorStateBackend
from headgate.state.stored import value_readers

Patch = tuple[Any, str, Any]


@dataclasses.dataclass(frozen=True)
class Plant:
    """A wrong verdict.

    Attributes:
        what: is wrong.
        kind: of change that shows it.
        patches: object, name and what takes its place.
    """

    what: str
    kind: str
    patches: tuple[Patch, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """While it is there."""
        with ExitStack() as stack:
            for target, name, instead in self.patches:
                stack.enter_context(patch.object(target, name, instead))
            yield


def _nothing(*_: Any, **__: Any) -> tuple[()]:
    return ()


def _same(*given: Any, **_: Any) -> Any:
    return given[0]


def _second(*given: Any, **_: Any) -> Any:
    return given[1]


def _whole(verdict: Verdict) -> property:
    return property(lambda _: verdict)


def _refuse(*_: Any, **__: Any) -> None:
    raise UsageError("planted")


def _parts(change: Callable[[Item], Item | None]) -> Any:
    """`keyed.judged`, with its items changed."""
    judged = keyed.judged

    def instead(*given: Any, **more: Any) -> list[Item]:
        return [item for each in judged(*given, **more) if (item := change(each)) is not None]

    return instead


def _turned(old: Verdict, new: Verdict | None) -> Callable[[Item], Item | None]:
    def change(item: Item) -> Item | None:
        if item.verdict is not old:
            return item
        return None if new is None else Item(item.part, item.name, new)

    return change


_UNASKED: Final[Patch] = (judging, "checks", _nothing)
_NO_LOSS: Final[Patch] = (judging, "judged", _parts(_turned(Verdict.ONLY_IN_SNAPSHOT, None)))
_AS_IS, _BAD = Verdict.AS_IS, Verdict.INCOMPATIBLE
_NO_TRIAL: Final[Patch] = (keyed, "_on_trial", _second)
_NOT_NEW: Final[Patch] = (judging, "judged", _parts(_turned(Verdict.ONLY_IN_PROGRAM, _BAD)))
_NOT_CONVERTED: Final[Patch] = (judging, "judged", _parts(_turned(Verdict.AFTER_MIGRATION, _BAD)))
_FITS: Final[Patch] = (OperatorStateBackend, "verdict", lambda *_: AsIs())
_NO_CLAIM: Final[Patch] = (judging.Judgement, "_claimed", _nothing)
_FREE_KEYS: Final[Patch] = (value_readers, "_check_map_keys", lambda *_: None)

PLANTS: Final = (
    Plant("sinks are not asked", "sink elsewhere", (_UNASKED,)),
    Plant("lines are not asked", "committed since", ((Committers, "_decided", _second),)),
    Plant("commits are always refused", "committed, taken back", ((Committers, "check", _refuse),)),
    Plant("claims are not asked", "claimed without checkpoints", (_NO_CLAIM,)),
    Plant("types always fit", "int to str", ((keyed, "judge_state", lambda *_: [AsIs()]),)),
    Plant("types never fit", "int to float", ((keyed, "judge_state", lambda *_: [Incompatible("planted")]),)),
    Plant("nothing is converted on trial", "set loses what told apart", (_NO_TRIAL,)),
    Plant("keys always fit", "keys of another type", (_UNASKED, (keyed, "_keys", _nothing))),
    Plant("elements always fit", "operator list other", (_FITS,)),
    Plant("the way of dealing out may change", "operator list for all",
          (_FITS,)),
    Plant("operator state is not looked at", "operator list gone",
          (_UNASKED, (judging.Judgement, "_operator_state", _nothing))),
    Plant("what is gone is not told", "state gone", (_UNASKED, _NO_LOSS)),
    Plant("what is renamed is not told", "state renamed", (_UNASKED, _NO_LOSS)),
    Plant("what is new is refused", "state new", (_NOT_NEW,)),
    Plant("conversions are refused", "list wider", (_NOT_CONVERTED,)),
    Plant("keys of maps may change", "map keys other",
          (_FREE_KEYS, _NO_TRIAL)),
    Plant("key groups do not count", "other key groups",
          (_UNASKED, (judging.Judgement, "_groups", _nothing))),
    Plant("key groups are not taken up", "key groups not named", ((judging, "with_stored_groups", _same),)),
    Plant("sources may go", "source uid",
          (_UNASKED, (judging, "_end", lambda part, name, *_: Item(part, name, _AS_IS)))),
    Plant("ends are always lost", "nothing",
          ((judging, "_end", lambda part, name, *_: Item(part, name, Verdict.ONLY_IN_SNAPSHOT)),)),
    Plant("what may be left behind counts", "state left behind",
          ((UpgradeReport, "verdict", _whole(Verdict.ONLY_IN_SNAPSHOT)),)),
    Plant("what is left behind is not told", "state left behind",
          ((UpgradeReport, "verdict", _whole(_AS_IS)),)),
    Plant("what may be left behind is not looked for", "keyed uid left behind", (_NO_LOSS,)),
    Plant("the whole is always well", "field without default", ((UpgradeReport, "verdict", _whole(_AS_IS)),)),
)  # fmt: skip
