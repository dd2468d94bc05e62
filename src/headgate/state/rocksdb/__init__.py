"""The keyed state backend in RocksDB; only here its library is called. Readers use `state/stored`."""
