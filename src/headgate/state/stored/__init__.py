"""Reads stored keyed state in whatever form it is: a blob, the changelog after one, RocksDB's files, tables.

Callers hand in the files and a codec of the values. Nothing here knows a storage, an operator or a job.
"""
