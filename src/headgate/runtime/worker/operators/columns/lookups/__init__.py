"""Joins with a table that every subtask has all of, and how it gets there. No state is kept for them."""
