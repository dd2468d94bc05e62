"""A worker: the subtasks of one slot, driven by one loop, in one process.

It obeys the job master's messages, and never imports the job master's code.
"""
