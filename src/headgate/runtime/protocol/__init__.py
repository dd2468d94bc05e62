"""What goes over the wire: messages, elements of channels and frames, as bytes and back.

No socket, no thread, no file.
"""
