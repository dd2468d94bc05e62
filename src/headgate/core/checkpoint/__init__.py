"""The checkpoint coordinator: when a checkpoint begins, completes, is aborted, retained and deleted.

Storage and messages are effects, carried out in `runtime/master/checkpoints`.
"""
