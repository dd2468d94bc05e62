"""Canonical tables: keyed state as typed Parquet tables that other tools open.

Which snapshots hold them is decided elsewhere.
"""
