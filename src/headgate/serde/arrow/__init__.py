"""Converts values to Arrow columns without loss, and back. Tables and files are in `state`."""
