"""The job master's part in checkpoints: carries out what the checkpoint coordinator decides.

When a checkpoint begins, completes or is given up is decided in `core/checkpoint`.
"""
