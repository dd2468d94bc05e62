"""Splits each state with a time to live into two states that a backend keeps: values, and their stamps.

A stamp is the time of the last write, or of a read that renews it, in ms. Stamps have the same shape as
the values: an int for a value, a list of ints for a list, a map from the same keys for a map. So the values
are stored as without a time to live, and switching it on or off changes nothing about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Generic

from headgate.api.declared.aggregate import ACC, IN, OUT
from headgate.api.declared.keyed_states import AggregateFunction, StateDescriptor, StateKind, StateTtl
from headgate.state.state_names import STAMPS

ABSENT: Final = bytes(bytearray(b"no entry"))
"""In place of a value where a key has no entry; compared by identity. No handle stores a default of bytes."""

_SUFFIXES: Final = {"processing": STAMPS, "event": f"{STAMPS}-event"}
"""Suffix of the stamps' state per clock, as stamps of one clock mean nothing by the other."""


def stamps_name(descriptor: StateDescriptor) -> str:
    ttl: StateTtl = descriptor.ttl
    return descriptor.name + _SUFFIXES[ttl.time]


def with_stamps(descriptors: Mapping[str, StateDescriptor]) -> dict[str, StateDescriptor]:
    """Return the states that a backend keeps for the declared ones; one with a time to live becomes two.

    The stamps (last-access times) of a state come before its values: a snapshot is written in this order,
    and the stamps decide which values are left out.
    """
    kept: dict[str, StateDescriptor] = {}
    for name, descriptor in descriptors.items():
        if descriptor.ttl is None:
            kept[name] = descriptor
            continue
        stamps = _stamps(descriptor)
        kept[stamps.name] = stamps
        kept[name] = _values(descriptor)
    return kept


def _stamps(descriptor: StateDescriptor) -> StateDescriptor:
    name = stamps_name(descriptor)
    if descriptor.kind == StateKind.LIST:
        return StateDescriptor(name, StateKind.LIST, (int,), list)
    if descriptor.kind == StateKind.MAP:
        key_serializer = descriptor.serializers[0] if descriptor.serializers else None
        serializers = (key_serializer, None)
        return StateDescriptor(name, StateKind.MAP, (descriptor.types[0], int), dict, serializers=serializers)
    return StateDescriptor(name, StateKind.VALUE, (int,), _nothing)


def _values(descriptor: StateDescriptor) -> StateDescriptor:
    if descriptor.kind == StateKind.VALUE:
        return replace(descriptor, default=_absent, ttl=None)
    if descriptor.kind == StateKind.AGGREGATING:
        return replace(descriptor, function=Accumulators(descriptor.function), ttl=None)
    return replace(descriptor, ttl=None)


def _nothing() -> None:
    return None


def _absent() -> bytes:
    return ABSENT


class Accumulators(Generic[IN, ACC, OUT]):
    """A user's aggregate function that returns the accumulator as its result, so that None means: no entry.

    Its other methods are the user's own, so that errors name them.
    """

    __slots__ = ("add", "create_accumulator")

    def __init__(self, function: AggregateFunction[IN, ACC, OUT]) -> None:
        self.create_accumulator = function.create_accumulator
        self.add = function.add

    def get_result(self, accumulator: ACC) -> ACC:
        return accumulator
