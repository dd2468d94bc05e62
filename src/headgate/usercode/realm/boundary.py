"""Calls from the framework into a realm: once for a batch, never for a record."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from headgate.usercode.realm import context
from headgate.usercode.realm.loader import Realm


def wrapped(realm: Realm, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, entering the realm at each call.

    A realm that has closed is noticed by what the function asks of it, not here: this costs a fifth of
    a microsecond.
    """
    handle, enter, leave = realm.handle, context.enter, context.leave

    def call(*args: Any) -> Any:
        token = enter(handle)
        try:
            return function(*args)
        finally:
            leave(token)

    return call


def iterated(realm: Realm, made: Iterable[Any]) -> Iterator[Any]:
    """The items of what user code has made, with the realm entered for each step and left in between."""
    items = iter(made)
    try:
        while True:
            try:
                item = realm.call(next, items)
            except StopIteration:
                return
            yield item
    finally:
        if isinstance(items, Generator):
            realm.call(items.close)
