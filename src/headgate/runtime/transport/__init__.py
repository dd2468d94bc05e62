"""How bytes go from process to process: listening, the handshake, connections, the data plane, the control
link.

What the bytes mean stands in `runtime/protocol`.
"""
