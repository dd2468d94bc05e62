"""Network connections between the processes of a job: listening, handshake, data plane and control links.

What they carry after the handshake, frames and messages, is defined in `runtime/protocol`.
"""
