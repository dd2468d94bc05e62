"""Records the types of a keyed operator's keys, and refuses a restore after these types have changed.

State under keys of a type that the program no longer uses would seem to be empty, so such a restore is
refused. A declared key type is also enforced while the job runs; otherwise its own checkpoint could not be
restored. If the program declares none, they are recorded; keys that find no restored state are logged.
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
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.selectors import KeySelector
from headgate.restore.restored_keys import other_type
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.wrong_use import keys_blamed, refuse_keys
from headgate.state.backend import KeyedBackend

_LOG: Final = logging.getLogger(__name__)


class KeyTypes:
    """The types of keys that a subtask of a keyed operator has seen; `declared`: those allowed, None: any."""

    __slots__ = ("_context", "_declared", "_found", "_has_state", "_known", "_seen", "_usual")

    def __init__(self, context: OperatorContext, declared: DeclaredKeys | None) -> None:
        self._context, self._declared = context, declared
        self._seen: frozenset[Shape] = frozenset()
        self._found: frozenset[Shape] = frozenset()
        self._usual: Shape | None = None
        self._known, self._has_state = True, False

    def keys_of(self, batch: Batch, selector: KeySelector) -> Sequence[Hashable]:
        """Return the keys of a batch, whose types are recorded; UsageError: one is of no type for keys, or of
        one that is not declared.
        """
        keys = keys_blamed(self._context, batch, selector, lambda: batch.keys(selector))
        # all keys of a column have one type
        one_type = isinstance(batch, ArrowBatch) and not callable(selector)
        if self.look(keys[:1] if one_type else keys):
            # With a single subtask no partitioner has checked the keys before.
            refuse_keys(self._context, selector, batch.rows())
        return keys

    def look(self, keys: Sequence[Hashable]) -> bool:
        """Record types of `keys`; return True if one is new: then check all keys. UsageError: undeclared."""
        if self._usual is not None and all_of_shape(keys, self._usual):
            return False
        shapes = shapes_of(keys)
        fresh = shapes - self._seen
        if fresh:
            self._note(fresh)
        self._usual = next(iter(shapes)) if len(shapes) == 1 else None
        return bool(fresh)

    def _misfit(self, shapes: Iterable[Shape]) -> Shape | None:
        return None if self._declared is None else first_misfit(shapes, self._declared.hint)

    def _note(self, fresh: Iterable[Shape]) -> None:
        declared, wrong = self._declared, self._misfit(fresh)
        if wrong is not None and declared is not None:
            raise UsageError(
                f"{self._context.label} got a key of type {shape_words(wrong)}, and {declared.teller} "
                f"declares keys of type {hint_words(declared.hint)}; make the key selector give that, or "
                "declare the type that it gives"
            )
        if self._found:
            bounded = tuple in self._seen
            for shape in fresh:
                if not (bounded and isinstance(shape, tuple)) and not may_find(shape, self._found):
                    self._warn(shape)
        self._seen = with_tuples_bounded({*self._seen, *fresh})

    def _warn(self, shape: Shape) -> None:
        _LOG.warning(
            "%s, subtask %d: a key of type %s came, and the state that was restored is under keys of "
            "type %s, so such keys find nothing of it; if the key selector has changed, take the old one "
            "or rewrite the keys with `headgate savepoint migrate --rekey`",
            self._context.label, self._context.subtask, shape_words(shape),
            " and ".join(sorted(map(shape_words, self._found))),
        )  # fmt: skip

    def restore(self, backend: KeyedBackend, states: Iterable[str]) -> None:
        """Take the types from the restored snapshots and, if one does not have them, from keys in `backend`.
        `backend` must have been restored; `states`: names of the declared states. Raises UsageError if a key
        read from `backend` is not of the declared type.
        """
        states = list(states)
        self._has_state = bool(states)
        handles = [state.keyed for state in self._context.restored if state.keyed is not None]
        stored = [shapes_of_stored(keyed.key_types) for keyed in handles]
        self._seen = frozenset().union(*(shapes for shapes in stored if shapes is not None))
        if None in stored:
            for name in states:
                keys = list(islice(backend.keys(name), KEYS_READ + 1))
                self._known = self._known and len(keys) <= KEYS_READ
                declared, wrong = self._declared, self._misfit(shapes := shapes_of(keys))
                if wrong is not None and declared is not None:
                    where = f"the checkpoint holds state {name!r} of {self._context.label}"
                    raise UsageError(other_type(where, wrong, declared))
                self._seen |= shapes
        self._found = self._seen = with_tuples_bounded(self._seen)

    def stored(self, backend: KeyedBackend) -> list[Plain] | None:
        """Return the types as snapshots store them; None: too many keys were restored to know all types."""
        if not self._known:
            return None
        queues = (backend.event_timers, backend.processing_timers)
        if not self._has_state and all(queue.next_time is None for queue in queues):
            return []
        return stored_shapes(self._seen)
