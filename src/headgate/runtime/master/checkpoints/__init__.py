"""The job master's part in checkpoints: performs what the checkpoint coordinator decides.

When a checkpoint begins, completes or is aborted is decided in `core/checkpoint`, never here.
"""
