"""Windows of columns whose state is larger than memory: what is over a budget lies in RocksDB, as chunks.

What windows do without that lives in the folder above, and how chunks are stored in `state/rocksdb`.
"""
