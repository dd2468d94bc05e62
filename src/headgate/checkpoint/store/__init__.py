"""The log of completed checkpoints, which is also the fence between drivers.

The one in ZooKeeper stands in `ha/zookeeper`.
"""
