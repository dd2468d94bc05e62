"""Factories of msgspec's typed decoders; one lock guards them, because making two at once may crash.

msgspec stores on a class what it learns of it before it has learnt all; a second thread that uses the class
in between crashes the process. So only this file has msgspec look at types. Threads may share what it makes.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from headgate.common.hints import Hint

if TYPE_CHECKING:
    from typing_extensions import TypeForm

UNDECODABLE: Final[tuple[type[Exception], ...]] = (
    msgspec.MsgspecError,
    struct.error,
    ValueError,  # of msgspec itself, too: text that is no UTF-8
    TypeError,
    AttributeError,
    ArithmeticError,
    LookupError,  # of zoneinfo, too: a zone that it does not know
    OSError,  # of zoneinfo: a name that is a folder of its database, or too long for a file
    RecursionError,  # of msgspec: nested too deeply
)
"""What decoding raises for bytes that are something else than what was written.

Every reader turns these into an error of its own that names the file, though a checksum comes before.
"""

T = TypeVar("T")

DecodeHook: TypeAlias = Callable[[type, Any], object]
"""Makes a value of a type that msgspec does not know, of the plain value that was read."""

# Reentrant, because finding out about a class may run code of its module.
_lock: Final = threading.RLock()


def msgpack_decoder(
    kind: TypeForm[T], ext_hook: Callable[[int, memoryview], object] | None = None
) -> msgspec.msgpack.Decoder[T]:
    """Return a decoder of MessagePack to type `kind`, for any thread; it raises one of `UNDECODABLE`.
    `ext_hook(code, data)` decodes extension types; None: they become `msgspec.msgpack.Ext`.

    Example:
        >>> msgpack_decoder(list[int]).decode(bytes([0x92, 1, 2]))
        [1, 2]
    """
    with _lock:
        return msgspec.msgpack.Decoder(kind, ext_hook=ext_hook)


def json_decoder(kind: TypeForm[T], dec_hook: DecodeHook | None = None) -> msgspec.json.Decoder[T]:
    """Return a decoder of JSON to type `kind`, for any thread; it raises one of `UNDECODABLE`.
    `dec_hook(type, value)` makes values of types that msgspec lacks; None: there are no such types in `kind`.

    Example:
        >>> json_decoder(dict[str, int]).decode('{"a": 1}')
        {'a': 1}
    """
    with _lock:
        return msgspec.json.Decoder(kind, dec_hook=dec_hook)


def converter(
    kind: TypeForm[T], strict: bool = True, dec_hook: DecodeHook | None = None
) -> Callable[[object], T]:
    """Return a function that converts a plain value (dict, list, text) to `kind`, or raises a msgspec error.

    Unless `strict`, text "1" may be a number. `dec_hook(type, value)` makes values of types msgspec lacks.

    Example:
        >>> converter(list[int], strict=False)(["1", "2"])
        [1, 2]
    """
    with _lock:
        msgspec.json.Decoder(kind, dec_hook=dec_hook)
    return partial(msgspec.convert, type=kind, strict=strict, dec_hook=dec_hook)


def is_custom(kind: Hint) -> bool:
    """Return whether a type is unknown to msgspec, so that a `dec_hook` must convert its values.

    Example:
        >>> is_custom(dict[str, int]), is_custom(threading.Thread)
        (False, True)
    """
    with _lock:
        return isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType)
