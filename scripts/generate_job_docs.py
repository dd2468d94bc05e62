"""Draws table and diagram of docs/machines/job.md from the table in `headgate.core.job.table`."""

from __future__ import annotations

from pathlib import Path

from headgate.core.job.table import BEFORE_LEAVING, MOVES, ROWS, Phase

PAGE = Path(__file__).resolve().parents[1] / "docs" / "machines" / "job.md"
BEGIN, END = "<!-- Drawn by `make docs` from src/headgate/core/job/table.py: -->", "<!-- end -->"


def table() -> str:
    """Every row of the table, in its order."""
    lines = ["| phase | row | event, and when | next phase | effects |", "| --- | --- | --- | --- | --- |"]
    for row, line in ROWS.items():
        following = "same" if line.to is None else line.to.value
        effects = ", ".join(f"`{name}`" for name in line.effects)
        cells = (_named(line.phases), row.value, line.event, following, effects)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def diagram() -> str:
    """The moves between different phases, one arrow for each pair, with the rows that make it."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, row), following in MOVES.items():
        if phase is not following:
            arrows.setdefault((phase, following), []).append(row.value)
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> created"]
    lines += [f"    {a.value} --> {b.value}: {' / '.join(rows)}" for (a, b), rows in arrows.items()]
    return "\n".join([*lines, "    over --> [*]", "```"])


def render(page: str) -> str:
    """The page with both drawn anew."""
    for drawn in (diagram(), table()):
        before, _, rest = page.partition(f"{BEGIN}\n")
        _, _, after = rest.partition(f"{END}\n")
        # A drawn part is marked while the next one is looked for.
        page = f"{before}\0{BEGIN}\n{drawn}\n{END}\n{after}".replace(f"\0{BEGIN}", "\0done")
    return page.replace("\0done", BEGIN)


def _named(phases: tuple[Phase, ...]) -> str:
    if len(phases) == len(Phase):
        return "any"
    if phases == BEFORE_LEAVING:
        return "any before leaving"
    return ", ".join(phase.value for phase in phases)


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
