"""The benchmark suite: `python -m bench` measures throughput, memory, backpressure and latency; not shipped."""
