"""Schema evolution: whether and how values of an older shape are read as today's type (see `codecs`)."""
