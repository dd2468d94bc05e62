"""The contract of an election of a job's leader, implemented in `ha/files` and `ha/zookeeper`.

Nothing here acts: no file is written, and no server is asked.
"""
