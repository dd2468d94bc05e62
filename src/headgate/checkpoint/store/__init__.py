"""The log of completed checkpoints, which fences drivers. The one in ZooKeeper is in `ha/zookeeper`."""
