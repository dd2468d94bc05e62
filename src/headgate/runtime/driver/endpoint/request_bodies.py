"""JSON bodies of the endpoint's POST requests. Unknown fields, wrong types and wrong values are refused."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from headgate.common.decoders import json_decoder
from headgate.common.errors import UsageError
from headgate.common.settings.options import PARALLELISM_MAX

Format = Literal["canonical", "native"]
Target = Annotated[str, Meta(min_length=1, max_length=4096)]


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The empty body (`{}`) of a request for a checkpoint or a cancellation."""


class Savepoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request for a savepoint below folder `target` (None: as configured), in `format`."""

    target: Target | None = None
    format: Format = "canonical"


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request to stop with a savepoint (see Savepoint); `drain`: fire all event-time timers."""

    target: Target | None = None
    format: Format = "canonical"
    drain: bool = False


class Rescale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request to rescale; `from_last`: use the last checkpoint where none can be taken."""

    parallelism: Annotated[int, Meta(ge=1, le=PARALLELISM_MAX)]
    from_last: bool = False


Request = TypeVar("Request", bound=msgspec.Struct)


def decoded(body: bytes, kind: type[Request]) -> Request:
    """Return a request's JSON body as an object of class `kind`; UsageError if it does not fit, or is empty.

    An empty body is refused, too: half a request must not stop a job.

    Example:
        >>> decoded(b'{"parallelism": 4}', Rescale)
        Rescale(parallelism=4, from_last=False)
    """
    try:
        return json_decoder(kind).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fields = ", ".join(kind.__struct_fields__) or "none"
        raise UsageError(f"the request is refused: {error}; it may have the fields {fields}") from None
