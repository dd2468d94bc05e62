"""What one deployment of a job consists of: workers, enumerators, pending requests, what was found out.

When an attempt begins and ends is decided in `core/job`; checkpoints have their folder next to this one.
"""
