"""Network connections between the processes of a job: listening, handshake, data plane and control links.

The meaning of the bytes that they carry is defined in `runtime/protocol`, never here.
"""
