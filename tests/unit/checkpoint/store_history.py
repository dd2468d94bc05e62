"""What several job masters did to one store, and the checker that no interleaving may displease."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.checkpoint.store.store_contract import CommitPermit, CompletedCheckpointStore
from headgate.common.errors import FencedError, StorageError
from headgate.common.ids import CheckpointId


@dataclass
class History:
    """Facts in the order in which they became known.

    Attributes:
        claims: generations, as they were granted.
        acknowledged: (checkpoint, generation) of every append that returned.
        possible: checkpoints whose append ended in doubt or in a fence: they may be there.
        impossible: checkpoints whose append certainly failed.
        trimmed_to: the greatest id below which a trim was begun.
    """

    claims: list[int] = field(default_factory=list)
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    possible: set[int] = field(default_factory=set)
    impossible: set[tuple[int, int]] = field(default_factory=set)
    trimmed_to: int = 0

    def claimed(self, permit: CommitPermit) -> None:
        """A claim was granted."""
        assert permit.generation not in self.claims, f"generation {permit.generation} was granted twice"
        self.claims.append(permit.generation)

    def append(self, store: CompletedCheckpointStore, permit: CommitPermit, checkpoint: int) -> bool:
        """Try to complete a checkpoint; False when the master must stop."""
        generation = permit.generation
        newest_claim = max(self.claims)
        try:
            store.append(permit, CheckpointId(checkpoint), f"chk-{checkpoint}/_metadata", "00")
        except FencedError:
            self.possible.add(checkpoint)
            return False
        except UnsureWriteError:
            self.possible.add(checkpoint)
        except StorageError:
            self.impossible.add((checkpoint, generation))
        else:
            assert generation >= newest_claim, (
                f"generation {generation} completed {checkpoint} although {newest_claim} had claimed before"
            )
            self.acknowledged.append((checkpoint, generation))
        return True

    def check(self, store: CompletedCheckpointStore) -> None:
        """What a fresh reader finds agrees with everything that was ever said."""
        found = [(entry.checkpoint, entry.generation) for entry in store.completed()]
        ids = [checkpoint for checkpoint, _ in found]
        assert ids == sorted(set(ids)), f"ids do not increase: {ids}"
        generations = [generation for _, generation in found]
        assert generations == sorted(generations), f"a replaced generation completed later: {found}"
        lost = [a for a in self.acknowledged if a not in found and a[0] >= self.trimmed_to]
        assert lost == [], f"completed checkpoints were lost: {lost}"
        invented = set(found) - set(self.acknowledged)
        assert {checkpoint for checkpoint, _ in invented} <= self.possible, f"nobody completed {invented}"
        assert set(found) & self.impossible == set(), "what certainly failed is there"
        said = [checkpoint for checkpoint, _ in self.acknowledged]
        assert len(set(said)) == len(said), f"an id was completed twice: {said}"


def master(
    history: History,
    store: CompletedCheckpointStore,
    rounds: int,
    checking: Callable[[], CompletedCheckpointStore] | None = None,
) -> None:
    """A job master's life: claim, go on behind the newest, complete some, keep the last two."""
    try:
        permit = store.claim()
    except StorageError:
        return
    history.claimed(permit)
    done: list[int] = []
    try:
        first = max((entry.checkpoint for entry in store.completed()), default=0) + 1
        for checkpoint in range(first, first + rounds):
            if not history.append(store, permit, checkpoint):
                return
            if checking is not None:
                history.check(checking())
            done.append(checkpoint)
            oldest = next((c for c in done[-2:] if (c, permit.generation) in history.acknowledged), None)
            if oldest is not None and len(done) > 1:
                history.trimmed_to = max(history.trimmed_to, oldest)
                store.trim(permit, CheckpointId(oldest))
    except FencedError:
        return
    except StorageError:
        return
