"""The benchmark suite: `python -m bench` throughput, memory, backpressure, latency; not shipped."""
