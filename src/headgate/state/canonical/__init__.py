"""The canonical format: keyed state as typed Parquet tables that other tools can open.

Canonical savepoints are stored in it. Which snapshots are canonical is decided elsewhere.
"""
