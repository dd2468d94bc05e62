"""The simulator: a whole job in one thread on a virtual clock, network, disk and gang.

The code of the job is production's; only the ports are virtual.
"""
