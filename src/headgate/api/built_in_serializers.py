"""The serializers that annotations stand for, for use inside a program's own; loading them loads msgspec."""

from __future__ import annotations

from headgate.serde.described_snapshot import DescribedSnapshot as DescribedSnapshot
from headgate.serde.resolve import serializer_for as serializer_for
