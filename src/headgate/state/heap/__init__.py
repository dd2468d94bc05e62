"""The keyed state backend in Python dicts; readers of what it stored use `state/stored`."""
