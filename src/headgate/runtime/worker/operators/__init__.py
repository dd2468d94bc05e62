"""The operators of a chain: what is done to batches, with state and timers, and user functions within.

Reading from channels and emitting into them is the task's.
"""
