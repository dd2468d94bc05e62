"""The transfers as the peers get them, and the picture of what each showed in between."""

from __future__ import annotations

import json
from pathlib import Path

from bench.transfers.peers import write_transfers
from bench.transfers.picture import Line, drawn


def test_each_transfer_is_in_one_file_in_its_order(tmp_path: Path) -> None:
    """Read one line of each file after the other they are in their order again."""
    transfers = [{"from": n, "to": n + 1, "amount": n} for n in range(100)]
    write_transfers(transfers, tmp_path / "files")
    files = [path.read_text().splitlines() for path in sorted((tmp_path / "files").iterdir())]
    assert [json.loads(line) for lines in zip(*files, strict=True) for line in lines] == transfers


def test_the_picture_has_what_was_seen_or_why_nothing_was() -> None:
    """One row for each system; of many answers some, and the one that is farthest from 0."""
    many = [(n, 7 if n == 4_321 else 1) for n in range(50_000)]
    picture = drawn(
        [
            Line("right", [(1, 0), (2, 0)]),
            Line("wrong", many),
            Line("none", why="cannot: " + "no <join> " * 90),
        ]
    )
    assert "right: 2 totals were seen, 0 of them not 0" in picture
    assert "wrong: 50,000 totals were seen, 50,000 of them not 0, by up to 7" in picture
    assert picture.count("<polyline") == 2
    assert len(picture) < 60_000
    assert ">none: cannot<" in picture
    assert "no &lt;join&gt; no" in picture
    assert Line("none", why="failed: it ends").told == "failed: it ends"
