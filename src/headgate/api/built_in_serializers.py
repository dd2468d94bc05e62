"""Built-in serializers for use inside a program's own serializers; importing this module loads msgspec."""

from __future__ import annotations

from headgate.serde.described_snapshot import DescribedSnapshot as DescribedSnapshot
from headgate.serde.resolve import serializer_for as serializer_for
