"""Log lines of a job as text for people: one for each, with its time, level, process and operator."""

from __future__ import annotations

from datetime import datetime

from headgate.common.plain_data import Json
from headgate.common.refusals.texts import visible


def log_text(found: dict[str, Json]) -> str:
    """Return log lines for people, each with its time, level, process and operator; control characters are
    written out, as a terminal would obey them.
    """
    lines, processes, older = found["lines"], found["processes"], found["older"]
    assert isinstance(lines, list)
    assert isinstance(processes, list)
    shown = [f"... {older:,} older lines fit, too; --limit shows more"] if older else []
    shown += [text for line in lines if isinstance(line, dict) for text in _texts(line)]
    for each in processes:
        if isinstance(each, dict) and each["left_out"]:
            shown.append(f"{each['process']} has dropped {each['left_out']:,} lines more: too many at once")
    return "\n".join(shown or ["no such line"])


def _texts(line: dict[str, Json]) -> list[str]:
    where = "" if line["uid"] is None else f" {line['uid']}[{line['subtask']}]"
    attempt = "" if line["attempt"] is None else f" attempt={line['attempt']}"
    millis = line["time_ms"]
    assert isinstance(millis, int)
    time = datetime.fromtimestamp(millis / 1000).astimezone().isoformat(" ", "milliseconds")
    first = f"{time} {line['level']} {line['process']}{where}{attempt} {line['logger']}: {line['message']}"
    more = line["exception"]
    return [visible(each) for text in (first, more) if text for each in str(text).split("\n")]
