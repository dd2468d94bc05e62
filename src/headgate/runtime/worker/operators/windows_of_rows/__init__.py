"""Operators of windows over single records, which are added, and whose windows end, many at once.

What windows are, what triggers ask and what a window keeps lies in `api.windows`, never here.
"""
