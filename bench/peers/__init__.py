"""Other engines on the same data: their programs, and environments of their own to run them in."""
