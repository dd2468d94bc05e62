"""The I/O around checkpoints: storage, metadata, the log of completed ones, who may delete what.

What is decided about checkpoints stands in `core/checkpoint`.
"""
