"""Functions that go on without the records on which they fail: what such a record did is undone.

Operators of other functions pay nothing for it, and are not here.
"""
