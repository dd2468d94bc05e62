"""Headgate jobs that are measured; each runs in a process of its own and prints one line with its result."""
