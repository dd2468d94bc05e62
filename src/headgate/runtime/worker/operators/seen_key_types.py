"""Which types of keys one subtask of a keyed operator has seen, and what a type of keys that changed means.

State under keys of a type that the program never asks for would seem to be empty, so such a restore is
refused. What the program declares is enforced while the job runs, too; else its own checkpoint could not be
restored. Where it declares nothing the types are only noted.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import Final

from headgate.common.errors import UsageError
from headgate.common.keys.key_types import (
    KEYS_READ,
    DeclaredKeys,
    Shape,
    all_of_shape,
    first_misfit,
    hint_words,
    may_find,
    shape_words,
    shapes_of,
    shapes_of_stored,
    stored_shapes,
    with_tuples_bounded,
)
from headgate.common.plain_data import Plain
from headgate.restore.restored_keys import other_type
from headgate.runtime.job.operator_context import OperatorContext
from headgate.state.backend import KeyedBackend

_LOG: Final = logging.getLogger(__name__)


class KeyTypes:
    """The types of the keys of one subtask.

    `context`: of the operator; `declared`: what the program declares; None: nothing.
    """

    __slots__ = ("_context", "_declared", "_found", "_has_state", "_known", "_seen", "_usual")

    def __init__(self, context: OperatorContext, declared: DeclaredKeys | None) -> None:
        self._context, self._declared = context, declared
        self._seen: frozenset[Shape] = frozenset()
        self._found: frozenset[Shape] = frozenset()
        self._usual: Shape | None = None
        self._known, self._has_state = True, False

    def look(self, keys: Sequence[Hashable]) -> bool:
        """Note the types of a batch's keys.

        Returns whether one of them is new here; it may be of a type that cannot be a key. Raises UsageError:
        a key is not of the declared type.
        """
        if self._usual is not None and all_of_shape(keys, self._usual):
            return False
        shapes = shapes_of(keys)
        fresh = shapes - self._seen
        if fresh:
            self._note(fresh)
        self._usual = next(iter(shapes)) if len(shapes) == 1 else None
        return bool(fresh)

    def _note(self, fresh: Iterable[Shape]) -> None:
        declared = self._declared
        wrong = None if declared is None else first_misfit(fresh, declared.hint)
        if wrong is not None and declared is not None:
            raise UsageError(
                f"{self._context.label} got a key of type {shape_words(wrong)}, and {declared.teller} "
                f"declares keys of type {hint_words(declared.hint)}; make the key selector give that, or "
                "declare the type that it gives"
            )
        if self._found:
            for shape in fresh:
                if not (isinstance(shape, tuple) and tuple in self._seen):
                    self._warn(shape)
        self._seen = with_tuples_bounded({*self._seen, *fresh})

    def _warn(self, shape: Shape) -> None:
        if not may_find(shape, self._found):
            _LOG.warning(
                "%s, subtask %d: a key of type %s came, and the state that was restored is under keys of "
                "type %s, so such keys find nothing of it; if the key selector has changed, take the old one "
                "or rewrite the keys with `headgate savepoint migrate --rekey`",
                self._context.label, self._context.subtask, shape_words(shape),
                " and ".join(sorted(map(shape_words, self._found))),
            )  # fmt: skip

    def restore(self, backend: KeyedBackend, states: Iterable[str]) -> None:
        """Take over the types of a snapshot; where it does not tell them, the restored keys do.

        `backend`: filled with what was restored; `states`: the declared ones. Raises UsageError: state is
        stored under keys that are not of the declared type.
        """
        states = list(states)
        self._has_state = bool(states)
        handles = [state.keyed for state in self._context.restored if state.keyed is not None]
        told = [shapes_of_stored(keyed.key_types) for keyed in handles]
        self._seen = frozenset().union(*(shapes for shapes in told if shapes is not None))
        if None in told:
            for name in states:
                keys = list(islice(backend.keys(name), KEYS_READ + 1))
                self._known = self._known and len(keys) <= KEYS_READ
                self._take(shapes_of(keys), f"the checkpoint holds state {name!r} of {self._context.label}")
        self._found = self._seen = with_tuples_bounded(self._seen)

    def _take(self, shapes: set[Shape], what: str) -> None:
        declared = self._declared
        wrong = None if declared is None else first_misfit(shapes, declared.hint)
        if wrong is not None and declared is not None:
            raise UsageError(other_type(what, wrong, declared))
        self._seen |= shapes

    def stored(self, backend: KeyedBackend) -> list[Plain] | None:
        """What a snapshot tells of the types; None: not all of them are known."""
        if not self._known:
            return None
        queues = (backend.event_timers, backend.processing_timers)
        if not self._has_state and all(queue.next_time is None for queue in queues):
            return []
        return stored_shapes(self._seen)
