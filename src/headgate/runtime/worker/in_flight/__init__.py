"""Records in flight of an unaligned checkpoint: gathered, stored, and given back after a restore.

Which subtask gets which of them is planned in `restore`.
"""
