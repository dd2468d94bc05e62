"""The checkpoint coordinator: when a checkpoint begins, completes, is given up, kept and deleted.

Storage and messages are effects, carried out in `runtime/master/checkpoints`.
"""
