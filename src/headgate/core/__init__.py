"""Everything that decides: state machines without I/O, threads, clock or randomness.

Events and the time come in as arguments, effects go out; who carries them out stands in `runtime`.
"""
