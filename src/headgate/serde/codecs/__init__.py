"""Codecs of types, a file per family of types. `evolution` reads older shapes, `arrow` makes columns."""
