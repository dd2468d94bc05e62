"""Reads stored keyed state in whatever form it is: a blob, the changelog after one, RocksDB's files, tables.

Clients give it the files (a port) and say how values pass. Nothing here knows a disk, an operator or a job.
"""
