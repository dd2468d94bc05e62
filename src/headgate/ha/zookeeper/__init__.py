"""ZooKeeper for high availability: its tree of nodes, the client, and the store of completed checkpoints.

Elections on shared files stand one folder above; nothing else of the house knows ZooKeeper.
"""
