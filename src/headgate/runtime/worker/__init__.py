"""A worker: one slot's subtasks, driven by one loop, in one process.

It obeys the job master and sees none of its code.
"""
