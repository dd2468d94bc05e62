"""The keyed state backend in Python dicts. Others that read its stored form use `state/stored`."""
