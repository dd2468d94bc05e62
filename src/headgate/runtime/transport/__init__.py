"""How bytes go from process to process: listening, handshake, connections, data plane, control link.

The meaning of the bytes is in `runtime/protocol`.
"""
