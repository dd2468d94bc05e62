"""A worker's part of a checkpoint: takes the snapshot of a subtask at a barrier, writes and acknowledges it.

When barriers are aligned is decided in `core/alignment`; the formats are in `state`.
"""
