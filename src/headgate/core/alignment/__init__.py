"""What a subtask does with barriers from several channels: aligned, unaligned, at least once.

Snapshots are taken in `runtime/worker/snapshot`.
"""
