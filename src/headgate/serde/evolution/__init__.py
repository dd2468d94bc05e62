"""Whether and how values of an older shape are read as today's type. Today's shapes are in `codecs`."""
