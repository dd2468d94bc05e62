"""State by key in arrays: numbers of keys, one row or any number of rows for each, found a batch at a time.

Nothing here knows of joins, groups or snapshots' forms.
"""
