"""Codecs (:class:`Form`) of NumPy scalars, NumPy arrays, and Arrow record batches and tables.

NumPy and Arrow are imported only when a program declares a type of theirs. Stored bytes are checked before
memory is taken for them: an array's size must be its bytes' length, and Arrow gets no bytes whose checksum is
wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_origin

from headgate.common.errors import UsageError
from headgate.common.files.durable import crc32
from headgate.common.hints import Hint
from headgate.serde.codecs.primitives import exactly
from headgate.serde.codecs.type_codec import Form, copier, describe

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

T = TypeVar("T", bound="np.generic")
V = TypeVar("V", bound="pa.RecordBatch | pa.Table")

_BYTES_MAX: Final = 2**32 - 1  # that msgpack can hold in one piece
_DTYPE: Final = re.compile(r"[<>|][biufcSUmM][1-9]\d{0,5}(\[\d{0,9}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?")
"""Matches the text of dtypes that can be stored: no objects, no records, a bounded width."""
_CODE_POINT_MAX: Final = 0x10FFFF
_SCALAR_KINDS: Final = "biufc"
_SCALAR_BYTES_MAX: Final = {"f": 8, "c": 16}  # wider ones differ between machines
_ABSTRACT: Final = (
    "generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating",
    "complexfloating", "flexible", "character",
)  # fmt: skip


def foreign_form(cls: type) -> Form | None:
    """Return the codec of a NumPy scalar or array class, or Arrow's RecordBatch or Table; None for others.

    UsageError for a scalar class without one size on all machines, such as ``np.number`` or ``np.str_``.
    """
    package = (cls.__module__ or "").partition(".")[0]  # what a program makes at run time may have none
    if package == "numpy":
        import numpy as np

        if cls is np.ndarray:
            return _array_form(cls, ArraySpec())
        return _scalar_form(cls) if issubclass(cls, np.generic) else None
    if package == "pyarrow" and cls.__name__ in _ARROW_READERS:
        return _arrow_form(cls)
    return None


def array_form(hint: Hint) -> Form | None:
    """Return the codec of ``NDArray[X]`` or ``np.ndarray[...]``; None for other annotations.
    UsageError if X is no dtype that can be stored, such as an object or one without an exact width.
    """
    origin = get_origin(hint)
    if not isinstance(origin, type) or (origin.__module__, origin.__name__) != ("numpy", "ndarray"):
        return None
    shape, dtype = (*get_args(hint), Any, Any)[:2]
    element = (*get_args(dtype), Any)[0]
    return _array_form(origin, _spec(element, _ndim(shape)))


# -- scalars


def _scalar_form(cls: type[np.generic]) -> Form:
    dtype = _exact_dtype(cls)
    if dtype is None:
        raise UsageError(
            f"numpy.{cls.__name__} has no one size or unit; use a type such as numpy.int64 or "
            "numpy.float32, or str, bytes, datetime or timedelta"
        )
    return Form(
        name=f"numpy.{cls.__name__}",
        description=describe("numpy", dtype=dtype.str),
        wire=bytes,
        to_plain=exactly(cls, lambda value: value.astype(dtype).tobytes()),
        from_plain=_scalar_reader(dtype),
        classes=frozenset({cls}),
    )


def _scalar_reader(dtype: np.dtype[T]) -> Callable[[bytes], T]:
    import numpy as np

    def read(plain: bytes) -> T:
        if type(plain) is not bytes or len(plain) != dtype.itemsize:
            raise ValueError(f"a {dtype} takes {dtype.itemsize} bytes; got {plain!r:.40}")
        if dtype.kind == "b" and plain > b"\x01":
            raise ValueError(f"a bool is one byte 0 or 1; got {plain!r}")
        value: T = np.frombuffer(plain, dtype)[0]
        return value

    return read


def _exact_dtype(cls: type[np.generic]) -> np.dtype[np.generic] | None:
    import numpy as np

    if any(vars(np)[name] is cls for name in _ABSTRACT):
        return None
    dtype = np.dtype(cls)
    if dtype.kind not in _SCALAR_KINDS or dtype.itemsize > _SCALAR_BYTES_MAX.get(dtype.kind, 8):
        return None
    return dtype.newbyteorder("<")


# -- arrays


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An annotation's limits on NumPy arrays: exact dtype or its kind (a letter), dimensions; None: any."""

    dtype: str | None = None  # exact, as NumPy writes it
    kind: str | None = None  # NumPy's letter of dtypes whose width or unit is left open
    ndim: int | None = None  # number of dimensions

    def check(self, dtype: str, ndim: int) -> None:
        """Raise ValueError for a dtype or number of dimensions that is not allowed or cannot be stored."""
        if not _DTYPE.fullmatch(dtype):
            raise ValueError(f"an array of dtype {dtype!r:.40} cannot be stored; convert it to numbers")
        if dtype[1] in _SCALAR_BYTES_MAX and int(dtype[2:]) > _SCALAR_BYTES_MAX[dtype[1]]:
            raise ValueError(f"dtype {dtype!r} differs between machines; convert it to a narrower one")
        if self.dtype not in (None, dtype) or self.kind not in (None, dtype[1]):
            raise ValueError(f"got an array of dtype {dtype!r}, expected {self.dtype or self.kind!r}")
        if self.ndim not in (None, ndim):
            raise ValueError(f"got an array of {ndim} dimensions, expected {self.ndim}")


def _spec(element: Any, ndim: int | None) -> ArraySpec:
    import numpy as np

    if element is Any or element is np.generic:
        return ArraySpec(ndim=ndim)
    exact = _exact_dtype(element) if isinstance(element, type) else None
    if exact is not None:
        return ArraySpec(dtype=exact.str, ndim=ndim)
    if element in (np.str_, np.bytes_, np.datetime64, np.timedelta64):
        return ArraySpec(kind=np.dtype(element).kind, ndim=ndim)
    raise UsageError(
        f"arrays of {getattr(element, '__name__', element)} cannot be stored; name an exact dtype such as "
        "numpy.float64, or none: numpy.ndarray"
    )


def _ndim(shape: Hint) -> int | None:
    lengths = get_args(shape)
    return None if get_origin(shape) is not tuple or Ellipsis in lengths else len(lengths)


def _array_form(cls: type, spec: ArraySpec) -> Form:
    return Form(
        name=f"numpy.ndarray[{spec.dtype or spec.kind or 'Any'}]",
        description=describe("ndarray", dtype=spec.dtype, dtype_kind=spec.kind, ndim=spec.ndim),
        wire=tuple[str, tuple[int, ...], bytes],
        to_plain=exactly(cls, lambda array: _array_to_plain(array, spec)),
        from_plain=lambda plain: _array_from_plain(plain, spec),
        classes=frozenset({cls}),
        immutable=False,
        copy=copier(False, True),
    )


def _array_to_plain(array: NDArray[T], spec: ArraySpec) -> tuple[str, tuple[int, ...], bytes]:
    # A dtype with fields calls itself V and its size, which the check refuses.
    spec.check(array.dtype.str, array.ndim)
    if array.nbytes > _BYTES_MAX:
        raise ValueError(f"an array of {array.nbytes} bytes is too large; at most {_BYTES_MAX} fit")
    return array.dtype.str, array.shape, array.tobytes()


def _array_from_plain(plain: tuple[str, tuple[int, ...], bytes], spec: ArraySpec) -> NDArray[T]:
    import numpy as np

    text, shape, data = plain
    if type(text) is not str or type(data) is not bytes or {*map(type, shape)} - {int}:
        raise TypeError("got something else than dtype, shape and bytes")
    spec.check(text, len(shape))
    dtype = np.dtype(text)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"an array of dtype {text} and shape {shape!r:.80} does not take {len(data)} bytes")
    array = np.ndarray(tuple(shape), dtype, buffer=data)
    _check_elements(array, data)
    return array.copy()


def _check_elements(array: NDArray[T], data: bytes) -> None:
    import numpy as np

    if array.dtype.kind == "b" and data.strip(b"\x00\x01"):
        raise ValueError("an array of bool holds a byte that is neither 0 nor 1")
    if array.dtype.kind == "U":
        points = np.frombuffer(data, array.dtype.str[0] + "u4")
        if len(points) and int(points.max()) > _CODE_POINT_MAX:
            raise ValueError("an array of str holds a number that is no character")


# -- Arrow


def _arrow_form(cls: type) -> Form:
    read = _ARROW_READERS[cls.__name__]
    return Form(
        name=f"pyarrow.{cls.__name__}",
        description=describe("arrow", of=cls.__name__),
        wire=tuple[int, bytes],
        to_plain=exactly(cls, _arrow_to_plain),
        from_plain=lambda plain: _arrow_from_plain(plain, read),
        classes=frozenset({cls}),
    )


def _arrow_to_plain(value: pa.RecordBatch | pa.Table) -> tuple[int, bytes]:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    try:
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write(value)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"Arrow cannot write it: {error}") from None
    data = sink.getvalue().to_pybytes()
    if len(data) > _BYTES_MAX:
        raise ValueError(f"{len(data)} bytes of columns are too many; at most {_BYTES_MAX} fit")
    return crc32(data), data


def _arrow_from_plain(plain: tuple[int, bytes], read: Callable[[pa.RecordBatchReader], V]) -> V:
    import pyarrow as pa

    checksum, data = plain
    if type(data) is not bytes or crc32(data) != checksum:
        raise ValueError("the checksum of stored columns is wrong")
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            value = read(reader)
        value.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ValueError(f"stored columns cannot be read: {error}") from None
    return value


def _read_batch(reader: pa.RecordBatchReader) -> pa.RecordBatch:
    batch = reader.read_next_batch()
    if next(iter(reader), None) is not None:
        raise ValueError("there is more than one record batch")
    return batch


_ARROW_READERS: Final[dict[str, Callable[[pa.RecordBatchReader], pa.RecordBatch | pa.Table]]] = {
    "RecordBatch": _read_batch,
    "Table": lambda reader: reader.read_all(),
}
