"""Leadership of a job: the right to lead, on shared files or in ZooKeeper, and a driver that waits for it.

A job itself is not run here, and nothing is decided about checkpoints.
"""
