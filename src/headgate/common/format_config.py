"""The choices that stored bytes depend on, and the fingerprint by which a restore notices a change of them.

Options in :mod:`headgate.common.settings.options` may change at every restart. These here may not: a
checkpoint written under other values would be read silently wrong. To change one, raise its number,
keep the old reader, and put it into the changelog. The max parallelism is such a choice as well; it differs
from job to job and stands in the checkpoint's metadata next to the fingerprint.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FormatConfig:
    """Versions of what stored bytes depend on: key hash, key groups, blob layout, row codec, checksum."""

    key_hash: str = "headgate-1"  # from a key to 32 bits (`common/keys/key_hashes.py`)
    key_group_step: str = "murmur-modulo-1"  # from 32 bits to a key group
    snapshot: int = 1  # layout of a state blob: sections, offsets by key group, checksums
    row_codec: int = 1  # how plain Python values become bytes
    checksum: str = "crc32"  # of sections and frames


CURRENT: Final = FormatConfig()  # what this version writes


def fingerprint(config: FormatConfig = CURRENT) -> str:
    """Return the choices of the stored format as one line, stored in checkpoints and compared at restore.

    Example:
        >>> fingerprint()
        'checksum=crc32;key_group_step=murmur-modulo-1;key_hash=headgate-1;row_codec=1;snapshot=1'
    """
    return ";".join(f"{name}={value}" for name, value in sorted(asdict(config).items()))


def differences(stored: str, config: FormatConfig = CURRENT) -> list[str]:
    """Return how a stored :func:`fingerprint` differs from that of `config`: a phrase per choice, if any.

    The stored fingerprint may be of another version, or damaged.

    Example:
        >>> differences(fingerprint().replace("headgate-1", "headgate-2"))
        ['key_hash is headgate-2, expected headgate-1']
    """
    found = _parts(stored)
    expected = _parts(fingerprint(config))
    names = sorted(found.keys() | expected.keys())
    return [
        f"{name} is {found.get(name, 'absent')}, expected {expected.get(name, 'absent')}"
        for name in names
        if found.get(name) != expected.get(name)
    ]


def _parts(line: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in line.split(";") if part)
    return {name: value for name, _, value in pairs}
