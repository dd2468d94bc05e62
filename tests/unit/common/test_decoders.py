"""Threads that make decoders of the same class at the same time; msgspec alone ends such a process."""

from __future__ import annotations

import subprocess
import sys

RACE = """
import sys, threading
import msgspec
from headgate.common.decoders import converter, json_decoder, msgpack_decoder

sys.setswitchinterval(1e-6)
DATA = {"first": {"counts": [1]}, "others": [{"counts": [2]}]}
PACKED, TEXT = msgspec.msgpack.encode(DATA), msgspec.json.encode(DATA)

def fresh():
    class Inner(msgspec.Struct):
        counts: "list[int]"
        names: "dict[str, int] | None" = None
    class Outer(msgspec.Struct):
        first: Inner
        others: tuple[Inner, ...] = ()
    return Outer

def decode(way, kind, gate, found):
    gate.wait()
    found.append((
        lambda: msgpack_decoder(kind).decode(PACKED),
        lambda: json_decoder(kind).decode(TEXT),
        lambda: converter(kind)(DATA),
        lambda: msgpack_decoder(list[kind]).decode(msgspec.msgpack.encode([DATA]))[0],
    )[way]())

for _ in range(300):
    kind, gate, found = fresh(), threading.Barrier(4), []
    threads = [threading.Thread(target=decode, args=(way, kind, gate, found)) for way in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert [each.others[0].counts for each in found] == [[2]] * 4, found
"""


def test_threads_that_make_decoders_of_one_class_at_the_same_time() -> None:
    """In a process of its own, which a segmentation fault would end."""
    ended = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
