"""One subtask in the worker's loop: what it reads next, in which steps, and on which thread.

What is done to records is in `operators`, where output goes in `exchange`.
"""
