"""The backend that keeps state in RocksDB on the local disk; the only place that knows RocksDB.

Other readers of its files use `state/stored`.
"""
