"""Operators of windows over single records: who adds records to windows together, and who ends windows together.

What windows are, what triggers ask and what a window keeps lies in `api.windows`, never here.
"""
