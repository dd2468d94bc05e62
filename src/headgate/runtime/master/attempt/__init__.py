"""One attempt (deployment) of a job: its workers, split enumerators, pending requests and errors.

Beginning and end of an attempt are decided in `core/job`; checkpoints have a folder of their own.
"""
