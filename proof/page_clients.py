"""Many pages that watch one job, in a process of their own: `python -m proof.page_clients COUNT SECONDS`.

The first line of the standard input has the address and the secret of the endpoint. Each client does what the
page does: it asks for a stream of events, and where there is no place for another one it asks for the status
every few seconds, on the connection that it has. One more client fetches the metrics every second. What they
were told is printed as JSON.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import threading
import time
from collections import Counter
from typing import Any, Final
from urllib.parse import urlsplit

POLL_S: Final = 5.0
SCRAPE_S: Final = 1.0
ANSWER_S: Final = 20.0
"""Who waits longer for an answer has got none."""
TELLING: Final = 5
"""So many failures are told in words."""


class Told:
    """What all clients were told.

    Attributes:
        answers: (what was asked for, status) -> how often.
        events: of all streams.
        longest_s: the longest time until an answer began, without streams.
        failures: requests without an answer, in words.
    """

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self.events = 0
        self.longest_s = 0.0
        self.failures: list[str] = []
        self._lock = threading.Lock()

    def answered(self, path: str, status: int, took_s: float) -> None:
        with self._lock:
            self.answers[path, status] += 1
            if path != EVENTS:
                self.longest_s = max(self.longest_s, took_s)

    def event(self) -> None:
        with self._lock:
            self.events += 1

    def failed(self, text: str) -> None:
        with self._lock:
            self.failures.append(text)

    def record(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "answers": {f"{path} {status}": times for (path, status), times in sorted(self.answers.items())},
            "events": self.events,
            "longest_ms": round(self.longest_s * 1000, 1),
            "unanswered": len(self.failures),
            "such_as": self.failures[:TELLING],
        }


EVENTS: Final = "/v1/events"
STATUS: Final = "/v1/snapshot"
METRICS: Final = "/metrics"


class Client:
    """One page, on one connection at a time.

    Args:
        address: of the endpoint.
        secret: that it asks for.
        told: what all of them were told.
        until: when to stop, by the monotonic clock.
    """

    def __init__(self, address: str, secret: str, told: Told, until: float) -> None:
        self._host = urlsplit(address).netloc
        self._headers = {"Authorization": f"Bearer {secret}"}
        self._told, self._until = told, until
        self._connection: http.client.HTTPConnection | None = None

    def watch(self) -> None:
        """Be a page until the time is over."""
        while time.monotonic() < self._until:
            answer = self._asks(EVENTS)
            if answer is not None and answer.status == 200:
                self._follow(answer)
            else:
                self._read(answer)
                self._poll(STATUS, POLL_S)

    def scrape(self) -> None:
        """Fetch the metrics until the time is over."""
        self._poll(METRICS, SCRAPE_S)

    def _poll(self, path: str, every_s: float) -> None:
        while (left_s := self._until - time.monotonic()) > 0:
            time.sleep(min(every_s, left_s))
            self._read(self._asks(path))

    def _follow(self, answer: http.client.HTTPResponse) -> None:
        try:
            while time.monotonic() < self._until and (line := answer.readline()):
                if line.startswith(b"data:"):
                    self._told.event()
        except OSError as error:
            self._told.failed(f"a stream ended: {error!r}")
        self._close()

    def _asks(self, path: str) -> http.client.HTTPResponse | None:
        fresh, began = self._connection is None, time.monotonic()
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self._host, timeout=ANSWER_S)
            self._connection.request("GET", path, headers=self._headers)
            answer = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self._close()
            if not fresh:  # closed while nobody asked anything on it: browsers ask again, too
                return self._asks(path)
            self._told.failed(f"{path}: {error!r}")
            return None
        self._told.answered(path, answer.status, time.monotonic() - began)
        return answer

    def _read(self, answer: http.client.HTTPResponse | None) -> None:
        if answer is None:
            return
        try:
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._told.failed(f"an answer ended early: {error!r}")
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="of pages")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--scrape", action="store_true", help="fetch the metrics every second, too")
    asked = parser.parse_args()
    address, secret = sys.stdin.readline().split()
    told, until = Told(), time.monotonic() + asked.seconds
    work = [Client(address, secret, told, until).watch for _ in range(asked.count)]
    if asked.scrape:
        work.append(Client(address, secret, told, until).scrape)
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(told.record()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
