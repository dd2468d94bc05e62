"""The stored form of serializers' snapshots: how they are written, read and found again.

Whether an older one can be read is judged in `evolution`.
"""
