"""The send queue to a subtask in another worker: encodes elements as frames, and limits their size."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.common.errors import HeadgateError, ProtocolError, UsageError
from headgate.common.ids import ChannelId
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.user_errors import shorten
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Event
from headgate.runtime.protocol.frames import Frame
from headgate.runtime.transport.data_plane_contract import DataPlane


@dataclass(frozen=True, slots=True)
class Between:
    """The operators at a channel's ends, for messages, and the bytes of its largest frame."""

    sender: str  # the operator that emits, as messages name it
    receiver: str  # the operator that receives
    bytes_max: int  # largest frame that a peer accepts


@dataclass(slots=True)
class RemoteLane:
    """The send queue to `channel`, in the worker of `slot`: encodes each element as a frame of `data`."""

    data: DataPlane
    slot: int
    channel: ChannelId
    codec: ElementCodec
    between: Between

    def deliver(self, element: Batch | Event) -> None:
        """Send an element; raise UsageError if one record, ProtocolError if all together exceed a frame."""
        kind, parts = self.codec.encode(element)
        frame = Frame(kind, *self.channel, parts)
        if frame.size > self.between.bytes_max and isinstance(element, (RowBatch, ArrowBatch)):
            raise self._too_large(element, frame.size)
        self.data.send(self.slot, frame)

    def _too_large(self, batch: Batch, size: int) -> HeadgateError:
        limit, ends = self.between.bytes_max, self.between
        allowed = f"a frame between workers holds at most {limit:,} (taskmanager.network.frame-size-max)"
        for place in range(len(batch)):
            single = batch.slice(place, place + 1)
            kind, parts = self.codec.encode(single)
            of_one = Frame(kind, *self.channel, parts).size
            if of_one > limit:
                return UsageError(
                    f"{ends.sender} emitted a record of {of_one:,} bytes for {ends.receiver}, and {allowed}; "
                    "raise that option, or emit smaller records, such as the name of a file in place of its "
                    f"content; the record is {shorten(single.rows()[0], 100)}"
                )
        return ProtocolError(
            f"{len(batch)} records of {ends.sender} for {ends.receiver} have {size:,} bytes together, and "
            f"{allowed}; raise that option"
        )
