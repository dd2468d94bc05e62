"""What holds a running job up: which operator, why, and what to do, judged from what was measured.

Pure, as all of `core`: the facts come in as `evidence`, `judge` returns a `finding`. Nothing here samples or
asks.
"""
