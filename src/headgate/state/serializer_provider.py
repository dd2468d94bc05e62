"""Keeps the serializers of one state across a restore: the stored one, the program's one, and their verdict.

A provider begins with one of the two and gets the other one once::

    made by                 begins   register_new_serializer   set_previous_serializer_snapshot
    lazily_registered(...)  WAITING  -> JUDGED or REFUSED      refused: it has one
    eagerly_registered(...) WAITING  refused: it has one       -> JUDGED or REFUSED

    state    current_serializer()                       previous_serializer()
    WAITING  the one that it began with; lazily, the    lazily the restored one; eagerly refused
             restored one
    JUDGED   the new or the reconfigured one            the restored one
    REFUSED  refused, with reason                        the restored one

The previous serializer is made when it is asked for, not before: a snapshot that cannot make it does no
harm where no value has to be read with it.
"""

from __future__ import annotations

import enum
from typing import Any, Generic, TypeVar

from headgate.common.errors import InternalError, UsageError
from headgate.serde.evolution.custom_serializers import UNNAMED, judge_snapshot
from headgate.serde.serializer import (
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from headgate.serde.verdicts import Incompatible

T = TypeVar("T")


class _Phase(enum.Enum):
    WAITING = "waiting"
    JUDGED = "judged"
    REFUSED = "refused"


class StateSerializerProvider(Generic[T]):
    """Decides which serializer reads one restored state, and which one writes it from then on."""

    def __init__(
        self, state: str, previous: TypeSerializerSnapshot[T] | None, registered: TypeSerializer[T] | None
    ) -> None:
        self._state = state
        self._previous, self._registered = previous, registered
        self._restored: TypeSerializer[T] | None = None
        self._phase, self._why = _Phase.WAITING, ""

    @classmethod
    def lazily_registered(cls, state: str, previous: TypeSerializerSnapshot[T]) -> StateSerializerProvider[T]:
        return cls(state, previous, None)

    @classmethod
    def eagerly_registered(cls, state: str, registered: TypeSerializer[T]) -> StateSerializerProvider[T]:
        """Make a provider with the program's serializer; a restore adds the stored snapshot later."""
        return cls(state, None, registered)

    def register_new_serializer(self, new: TypeSerializer[T]) -> TypeSerializerSchemaCompatibility[T]:
        """Take the program's serializer, once (else InternalError); return whether it reads stored values."""
        if self._registered is not None or self._previous is None:
            raise InternalError(f"{self._state} has a registered serializer already; please report this")
        self._registered = new
        return self._judge(self._previous, new)

    def set_previous_serializer_snapshot(
        self, previous: TypeSerializerSnapshot[T], writer: str = UNNAMED
    ) -> TypeSerializerSchemaCompatibility[T]:
        """Take the stored snapshot of the serializer that wrote the state, once (else InternalError), and
        return whether the program's serializer reads its values. `writer`: the stored one's name in errors.
        """
        if self._previous is not None or self._registered is None:
            raise InternalError(f"{self._state} has a restored snapshot already; please report this")
        self._previous = previous
        return self._judge(previous, self._registered, writer)

    def current_serializer(self) -> TypeSerializer[T]:
        """Return the serializer that writes the state from now on; UsageError: it was judged incompatible."""
        if self._phase is _Phase.REFUSED:
            raise UsageError(f"{self._state} cannot be accessed: {self._why}")
        return self.previous_serializer() if self._registered is None else self._registered

    def previous_serializer(self) -> TypeSerializer[T]:
        """Return a serializer that decodes the stored bytes, into values of the program's type where it can.
        InternalError: nothing was restored.
        """
        if self._previous is None:
            raise InternalError(f"nothing was restored into {self._state}; please report this")
        if self._restored is None:
            self._restored = self._restore(self._previous)
        return self._restored

    def _restore(self, previous: TypeSerializerSnapshot[T]) -> TypeSerializer[T]:
        if self._registered is None or self._phase is _Phase.REFUSED:
            return previous.restore_serializer()
        return previous.restore_serializer_for(self._registered)

    def _judge(
        self, previous: TypeSerializerSnapshot[T], new: TypeSerializer[T], writer: str = UNNAMED
    ) -> TypeSerializerSchemaCompatibility[T]:
        judged: TypeSerializerSchemaCompatibility[Any] = judge_snapshot(previous, new, writer)
        self._phase, self._restored = _Phase.JUDGED, None
        if isinstance(judged.verdict, Incompatible):
            self._phase, self._why = _Phase.REFUSED, judged.verdict.why
        elif judged.is_compatible_with_reconfigured_serializer:
            self._registered = judged.reconfigured_serializer
        return judged
