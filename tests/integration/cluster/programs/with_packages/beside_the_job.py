"""What the job imports from its own folder."""


def same(record: int) -> int:
    """The record."""
    return record
