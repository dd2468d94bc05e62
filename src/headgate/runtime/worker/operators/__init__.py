"""The operators of a chain: they process batches with user functions, state and timers.

Reading from channels and sending to them is the task's part, not theirs.
"""
