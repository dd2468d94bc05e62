"""The network protocol: messages, stream elements and frames, encoded as bytes and decoded.

Pure functions: no socket, thread or file.
"""
