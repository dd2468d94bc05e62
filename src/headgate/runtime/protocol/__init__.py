"""The network protocol: messages, stream elements and frames, encoded as bytes and decoded.

Nothing here uses a socket, thread or file.
"""
