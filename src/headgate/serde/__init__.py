"""Serializers: values to bytes and back. Stored bytes name some of these modules, which must not move."""
