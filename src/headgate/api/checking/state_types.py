"""Whether every declared state can be stored, judged from its types before anything starts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from headgate.api.declared.keyed_states import StateDescriptor, StateKind, declared_state
from headgate.api.declared.operator_state import BROADCAST, OperatorStateDescriptor, declared_operator_state
from headgate.common.errors import PlanError, UsageError
from headgate.common.hints import Hint
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.graph.logical import Node
from headgate.graph.rewrites import place

_WARNED: Final[dict[Any, Any]] = {}
"""What Python's filter of warnings remembers, so that a job that is planned twice warns once."""


class _Part(NamedTuple):
    """One type of a declared state: its values, or the keys of a map."""

    node: Node
    where: str
    site: str
    hint: Hint
    is_key: bool


def check_state_types(nodes: Iterable[Node], config: Config) -> None:
    """Refuse state whose values have no serializer, and tell of state that is stored as pickle."""
    parts = [part for node in nodes for part in _parts(node)]
    if not parts:
        return
    from headgate.serde.codecs.pickled import (
        holds_pickle,  # these load msgspec, which a program need not
    )
    from headgate.serde.resolve import serializer_for

    pickled = []
    for part in parts:
        try:
            description = serializer_for(part.hint, part.where).describe()
        except UsageError as error:
            raise PlanError(f"operator {place(part.node)}: {error}") from None
        if holds_pickle(description):
            pickled.append(part)
    _judge_pickled(pickled, config)


def _judge_pickled(parts: list[_Part], config: Config) -> None:
    for part in parts:
        if part.is_key:
            raise PlanError(
                f"operator {place(part.node)}: the keys of {part.where} are marked hg.pickled, but equal "
                "keys need equal bytes; use plain values or a record as key"
            )
        if not config.get(o.GENERIC_TYPES):
            raise PlanError(
                f"operator {place(part.node)}: {part.where} is stored as pickle, which "
                f"{o.GENERIC_TYPES.key} = false ({config.origin(o.GENERIC_TYPES).text}) forbids; give it a "
                "type that has a serializer, such as a dataclass"
            )
    if parts:
        _warn(parts)


def _warn(parts: list[_Part]) -> None:
    names = ", ".join(f"{part.where} of operator {part.node.name}" for part in parts)
    file, _, line = parts[0].site.rpartition(":")
    warnings.warn_explicit(
        f"stored as pickle: {names}. Pickled state cannot change its type, runs code when a checkpoint is "
        f"read, and is bound to this version of Python; {o.GENERIC_TYPES.key}=false forbids it",
        UserWarning,
        file or parts[0].node.site or "headgate",
        int(line) if line.isdigit() else 0,
        registry=_WARNED,
    )


def _parts(node: Node) -> Iterable[_Part]:
    function = getattr(node, "function", None)
    declared: list[StateDescriptor | OperatorStateDescriptor] = [
        *declared_state(function).values(),
        *declared_operator_state(function).values(),
    ]
    for descriptor in declared:
        kind = descriptor.kind if isinstance(descriptor, StateDescriptor) else descriptor.mode
        keyed = kind in (StateKind.MAP, BROADCAST)
        given = descriptor.serializers or (None,) * len(descriptor.types)
        site: str = getattr(descriptor, "site", "")
        what = "state" if isinstance(descriptor, StateDescriptor) else "operator state"
        where = f"{what} {descriptor.name!r}{f' ({site})' if site else ''}"
        for at, (hint, serializer) in enumerate(zip(descriptor.types, given, strict=True)):
            if serializer is None:
                yield _Part(node, where, site, hint, is_key=keyed and at == 0)
