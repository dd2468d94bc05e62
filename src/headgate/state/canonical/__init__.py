"""The canonical format: keyed state as typed Parquet tables that other tools can open.

Which snapshots use it is decided elsewhere.
"""
