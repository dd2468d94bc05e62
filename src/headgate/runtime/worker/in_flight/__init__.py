"""In-flight records (sent, not yet processed) of unaligned checkpoints: captured, stored, and later replayed.

Which subtask gets which of them after a restore is decided in `restore`, not here.
"""
