"""ZooKeeper for high availability: its tree of nodes, the client, and the store of completed checkpoints.

Elections on shared files are in `ha/files`; no other package knows ZooKeeper.
"""
