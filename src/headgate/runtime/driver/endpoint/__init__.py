"""The driver's HTTP endpoint, through which other processes look at a running job and control it."""
