"""The keyed state backend in RocksDB, which only this folder calls. Other readers use `state/stored`."""
