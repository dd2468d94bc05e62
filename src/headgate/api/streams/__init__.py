"""Streams: reading inputs, and the calls that say how records are transformed, keyed and written. Each call
adds a node to the graph; no record is touched.
"""
