"""What programs use: the environment, streams, functions, state and connectors as they are written in a
program. It builds a graph and runs nothing.
"""
