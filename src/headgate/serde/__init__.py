"""Serializers: values to bytes and back. Stored snapshots name classes here by module: do not move them."""
