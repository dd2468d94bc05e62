"""The canonical format: keyed state as typed Parquet tables that other tools can open.

Canonical savepoints are in it; nothing here decides which snapshots are.
"""
