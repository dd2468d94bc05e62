"""Barrier handlers: how a subtask lines up the barriers of its input channels.

Snapshots are taken in `runtime/worker/snapshot`.
"""
