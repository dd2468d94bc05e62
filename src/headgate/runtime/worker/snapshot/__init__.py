"""What a worker does at a barrier: takes the snapshot of a subtask, writes it, and acknowledges it.

When barriers are aligned is decided in `core/alignment`; formats stand in `state`.
"""
