"""stub."""
from __future__ import annotations
from dataclasses import dataclass
class _P:
    def reached(self, place): pass
@dataclass(frozen=True)
class FaultMix:
    pass
NO_FAULTS = FaultMix()
class Faults:
    def __init__(self, world, mix, rng):
        self.done=[]; self.spent=True
    def probe(self, p): return _P()
    def disk(self, *a): return "works"
    def die_if_killed(self, p): pass
    def maybe_strike(self): pass
    def heal(self): pass
