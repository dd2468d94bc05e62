"""Keys: their hashes and key groups, their types, and their text.

Keyed state itself is in `headgate.state`.
"""
