"""Where a subtask's output goes: partitions, channels to other subtasks, and what is held back.

Frames and sockets stand in `runtime/protocol` and `runtime/transport`.
"""
