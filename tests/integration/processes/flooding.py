"""Opens connections to ports, hundreds at a time, and does with them what strangers do; a process of its own.

It reads orders from its standard input, a line of JSON each: the ports, as lists of a host and a number, how
many connections to keep open to each, and how many of them to replace every second. It ends with its input,
and then prints how many it has made to each port.
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import socket
import sys
import time
from contextlib import suppress

OPENINGS = [
    b"",
    b"G",
    b"GET /v1/job HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
    b"POST /v1/stop HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999999\r\n\r\n",
    b"HGHS\x01\x00\x00\x00",
    b"\x16\x03\x01\x02\x00\x01",
    bytes(200_000),
]
"""What is said: nothing, half a head, a body that never comes, half a handshake, garbage."""


class Flood:
    """The connections to one port, of which there are always `most`."""

    def __init__(self, host: str, port: int, most: int) -> None:
        self.where, self.most, self.made, self.refused = (host, port), most, 0, 0
        self.open: list[socket.socket] = []

    def add(self) -> None:
        """One more; the oldest goes where there are enough."""
        if len(self.open) >= self.most:
            self.open.pop(0).close()
        line = socket.socket(socket.AF_INET6 if ":" in self.where[0] else socket.AF_INET)
        line.setblocking(False)
        try:
            line.connect(self.where)
        except BlockingIOError:
            pass  # on its way
        except OSError:  # the port is closed
            self.refused += 1
            line.close()
            return
        self.made += 1
        self.open.append(line)

    def talk(self, chance: random.Random) -> None:
        """Some say a little more."""
        for line in chance.sample(self.open, min(len(self.open), 20)):
            with suppress(OSError):
                line.send(chance.choice(OPENINGS))


def main() -> None:
    """Until the input ends."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
    chance = random.Random(16)
    floods: list[Flood] = []
    buffer = b""
    per_second = 0.0
    while True:
        if select.select([sys.stdin], [], [], 0.05)[0]:
            read = os.read(0, 65536)
            if not read:
                break
            *lines, buffer = (buffer + read).split(b"\n")
            for line in lines:
                order = json.loads(line)
                per_second = order["per_second"]
                known = {flood.where for flood in floods}
                wanted = {(host, port) for host, port in order["ports"]}
                floods += [Flood(*where, order["each"]) for where in sorted(wanted - known)]
                for flood in floods:
                    while len(flood.open) < min(flood.most, order["each"]) and not flood.refused:
                        flood.add()
        began = time.monotonic()
        for flood in floods:
            for _ in range(max(1, round(per_second * 0.05))):
                if flood.refused < 1000:
                    flood.add()
            flood.talk(chance)
        time.sleep(max(0.0, 0.05 - (time.monotonic() - began)))
    print(json.dumps({f"{flood.where[0]}:{flood.where[1]}": flood.made for flood in floods}))


if __name__ == "__main__":
    main()
