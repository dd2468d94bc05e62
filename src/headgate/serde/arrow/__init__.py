"""Converts values to Arrow columns without loss, and back; package `state` writes columns to files."""
