"""The output side of a subtask: partitioning, channels to other subtasks, and buffered batches.

Frames and sockets are in `runtime/protocol` and `runtime/transport`, not here.
"""
