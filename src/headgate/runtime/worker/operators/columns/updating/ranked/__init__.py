"""The first rows of each key in some order: how rows are ordered, which are kept, and what a mark changes.

What is computed anew for each key that changes never lives here.
"""
