"""The contract of an election, which the rooms `files` and `zookeeper` keep.

Nothing here acts: no file is written, and no server is asked.
"""
