"""Patterns over the rows of a key: their shape, the machine that finds matches, and what conditions refer to.

Rows, state and Arrow batches are elsewhere: the machine knows rows by number and asks whether conditions
hold.
"""
