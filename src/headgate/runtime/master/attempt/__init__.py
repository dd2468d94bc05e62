"""What one deployment of a job consists of: workers, enumerators, who waits for an answer, what was found.

When an attempt begins and ends is decided in `core/job`; checkpoints stand in the folder beside.
"""
