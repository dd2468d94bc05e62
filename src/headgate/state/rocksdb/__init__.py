"""The keyed state backend in RocksDB; only here its library is called. `state/stored` reads its files."""
