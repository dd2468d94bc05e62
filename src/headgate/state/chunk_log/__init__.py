"""State as files of chunks of columns, each stored once: what changed since the file before it."""
