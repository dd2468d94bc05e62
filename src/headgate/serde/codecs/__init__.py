"""From a type to its codec, a file per family. `evolution` reads older shapes, `arrow` makes columns."""
