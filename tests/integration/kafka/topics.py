"""What happens to topics from outside: records come, go out of date, and topics are deleted."""

from __future__ import annotations

import time
from collections import Counter

from confluent_kafka import OFFSET_END, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

KEYS = 50
PARTITIONS = 2
PATIENCE_S = 120


class Topics:
    """The topics of one broker, by a client that Spark has no part in.

    Each call has a client of its own: none goes on with what it knew of a broker before a kill.

    Args:
        address: for `bootstrap.servers`.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def produce(self, topic: str, first: int, count: int) -> Counter[str]:
        """Write the records from number `first` on, if need be into a new topic; how many of each key."""
        self._make(topic)
        failures: list[str] = []
        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True})
        for number in range(first, first + count):
            producer.produce(
                topic,
                key=f"k{number % KEYS}",
                value=str(number),
                on_delivery=lambda error, _: failures.append(str(error)) if error else None,
            )
        assert producer.flush(PATIENCE_S) == 0, f"records wait for {topic!r} after {PATIENCE_S} s"
        assert not failures, failures[0]
        return Counter(f"k{number % KEYS}" for number in range(first, first + count))

    def delete(self, topic: str) -> None:
        """The topic is no more; another of the same name begins at offset 0."""
        admin = self._admin()  # which has to live until the answer
        admin.delete_topics([topic], operation_timeout=PATIENCE_S)[topic].result(PATIENCE_S)

    def forget(self, topic: str) -> None:
        """All its records are gone, as when their retention is over; offsets count on."""
        admin = self._admin()
        everything = [TopicPartition(topic, number, OFFSET_END) for number in range(PARTITIONS)]
        for done in admin.delete_records(everything).values():
            done.result(PATIENCE_S)

    def _make(self, topic: str) -> None:
        """The topic exists, and each partition has a leader."""
        admin, deadline = self._admin(), time.monotonic() + PATIENCE_S
        if topic not in admin.list_topics(timeout=PATIENCE_S).topics:
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(PATIENCE_S)
        while not self._has_leaders(admin, topic):
            assert time.monotonic() < deadline, f"topic {topic!r} has no leaders after {PATIENCE_S} s"
            time.sleep(0.1)

    @staticmethod
    def _has_leaders(admin: AdminClient, topic: str) -> bool:
        try:
            found = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        except KafkaException:
            return False
        return len(found) == PARTITIONS and all(part.leader >= 0 for part in found.values())

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address})
