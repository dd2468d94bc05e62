"""Time to live: when an entry of state is over, and when it is removed.

Declared in `api/declared`; backends know nothing of it.
"""
