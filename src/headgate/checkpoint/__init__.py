"""The I/O of checkpoints: storage, metadata, log, deletion. Decisions are made in `core/checkpoint`."""
