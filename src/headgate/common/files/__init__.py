"""Files that last: functions bound at import, durable writes, envelopes, permissions, paths that stored
bytes name.

What the files hold is known by who writes them.
"""
