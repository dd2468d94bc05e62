"""Joins in the plan beyond equal columns: by event time, and keys that equal themselves in their own way."""
