"""Contracts for serializers that a program brings itself, re-exported from `serde`."""

from __future__ import annotations

from headgate.serde.composite_snapshot import (
    CompositeTypeSerializerSnapshot as CompositeTypeSerializerSnapshot,
)
from headgate.serde.composite_snapshot import OuterSchemaCompatibility as OuterSchemaCompatibility
from headgate.serde.serializer import TypeSerializer as TypeSerializer
from headgate.serde.serializer import TypeSerializerSchemaCompatibility as TypeSerializerSchemaCompatibility
from headgate.serde.serializer import TypeSerializerSnapshot as TypeSerializerSnapshot
from headgate.serde.simple_snapshot import SimpleTypeSerializerSnapshot as SimpleTypeSerializerSnapshot
from headgate.serde.snapshots.snapshot_views import DataInputView as DataInputView
from headgate.serde.snapshots.snapshot_views import DataOutputView as DataOutputView
