"""In-flight records of unaligned checkpoints: captured, stored, and processed again after a restore.

Which subtask gets which of them is decided in `restore`, not here.
"""
