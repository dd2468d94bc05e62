"""Keys: their hashes and key groups, their types, and their text.

State by key stands in `state`.
"""
