"""Writes the dashboard for Grafana and the alert rules for Prometheus anew: examples/monitoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "examples" / "monitoring"
JOB: Final = 'job_name="$job"'
WIDTH: Final = 24
TITLE, HEIGHT = 1, 7

Panel = tuple[str, str, dict[str, str]]
"""Title, unit in Grafana's words, and name of each line -> expression."""

ROWS: Final[dict[str, list[Panel]]] = {
    "Health": [
        ("State", "none", {"{{state}}": f"headgate_job_state{{{JOB}}} == 1"}),
        ("Restarts in an hour", "none", {"restarts": f"increase(headgate_restarts_total{{{JOB}}}[1h])"}),
        (
            "Age of the last checkpoint",
            "s",
            {"age": f"time() - headgate_checkpoint_last_completed_timestamp_seconds{{{JOB}}}"},
        ),
    ],
    "Throughput": [
        (
            "Records in",
            "cps",
            {"{{operator}}": f"sum by (operator) (rate(headgate_records_in_total{{{JOB}}}[1m]))"},
        ),
        (
            "Records out",
            "cps",
            {"{{operator}}": f"sum by (operator) (rate(headgate_records_out_total{{{JOB}}}[1m]))"},
        ),
        (
            "Late and bad records",
            "cps",
            {
                "late": f"sum(rate(headgate_late_records_dropped_total{{{JOB}}}[1m]))",
                "bad": f"sum(rate(headgate_bad_records_skipped_total{{{JOB}}}[1m]))",
            },
        ),
    ],
    "Time": [
        (
            f"{title} subtask of each operator",
            "percentunit",
            {"{{operator}}": f"max by (operator) (rate(headgate_{what}_seconds_total{{{JOB}}}[1m]))"},
        )
        for title, what in (("Busiest", "busy"), ("Most backpressured", "backpressured"), ("Idlest", "idle"))
    ],
    "Event time": [
        (
            "Lag of event time behind the clock",
            "s",
            {
                "{{operator}}": "time() - min by (operator) "
                f'(headgate_watermark_timestamp_seconds{{{JOB},side="output"}})'
            },
        ),
        (
            "Timers",
            "none",
            {"{{domain}}": f"sum by (domain) (headgate_timers_pending{{{JOB}}})"},
        ),
        (
            "99 of 100 steps",
            "s",
            {
                "{{operator}}": "histogram_quantile(0.99, sum by (operator, le) "
                f"(rate(headgate_step_seconds_bucket{{{JOB}}}[1m])))"
            },
        ),
    ],
    "Sources and sinks": [
        (
            "Records to be read",
            "none",
            {"{{operator}}": f"sum by (operator) (headgate_source_pending_records{{{JOB}}})"},
        ),
        (
            "Bytes to be read",
            "bytes",
            {"{{operator}}": f"sum by (operator) (headgate_source_pending_bytes{{{JOB}}})"},
        ),
        (
            "Time behind the end of the input",
            "s",
            {"{{operator}}": f"max by (operator) (headgate_source_behind_seconds{{{JOB}}})"},
        ),
        (
            "Transactions not yet committed",
            "none",
            {"{{operator}}": f"sum by (operator) (headgate_sink_pending_commits{{{JOB}}})"},
        ),
        (
            "99 of 100 commits",
            "s",
            {
                "{{operator}}": "histogram_quantile(0.99, sum by (operator, le) "
                f"(rate(headgate_sink_commit_seconds_bucket{{{JOB}}}[5m])))"
            },
        ),
    ],
    "Exchanges": [
        (
            "Frames in flight",
            "none",
            {"{{operator}}": f"sum by (operator) (headgate_channel_in_flight_frames{{{JOB}}})"},
        ),
        (
            "Bytes in flight",
            "bytes",
            {"{{operator}}": f"sum by (operator) (headgate_channel_in_flight_bytes{{{JOB}}})"},
        ),
        (
            "Least credit of a channel",
            "none",
            {"{{operator}}": f"min by (operator) (headgate_channel_credit_frames{{{JOB}}})"},
        ),
    ],
    "RocksDB": [
        (
            "Files",
            "bytes",
            {"{{operator}}": f"sum by (operator) (headgate_rocksdb_sst_bytes{{{JOB}}})"},
        ),
        (
            "Memory",
            "bytes",
            {
                "not written: {{operator}}": f"sum by (operator) (headgate_rocksdb_memtable_bytes{{{JOB}}})",
                "cache of blocks": f"max(headgate_rocksdb_block_cache_bytes{{{JOB}}})",
            },
        ),
        (
            "To be rewritten",
            "bytes",
            {"{{operator}}": f"sum by (operator) (headgate_rocksdb_compaction_pending_bytes{{{JOB}}})"},
        ),
    ],
    "Checkpoints": [
        (
            "Duration",
            "s",
            {
                "whole": f"headgate_checkpoint_last_duration_seconds{{{JOB}}}",
                "start delay": f"headgate_checkpoint_last_start_delay_seconds{{{JOB}}}",
                "alignment": f"headgate_checkpoint_last_alignment_seconds{{{JOB}}}",
                "loop": f"headgate_checkpoint_last_sync_seconds{{{JOB}}}",
                "writing": f"headgate_checkpoint_last_async_seconds{{{JOB}}}",
                "commit": f"headgate_checkpoint_last_commit_seconds{{{JOB}}}",
            },
        ),
        (
            "Size",
            "bytes",
            {
                "all state": f"headgate_checkpoint_last_full_bytes{{{JOB}}}",
                "written": f"headgate_checkpoint_last_written_bytes{{{JOB}}}",
                "in flight": f"headgate_checkpoint_last_in_flight_bytes{{{JOB}}}",
            },
        ),
        (
            "State by operator",
            "bytes",
            {"{{operator}}": f"sum by (operator) (headgate_checkpoint_last_state_bytes{{{JOB}}})"},
        ),
        (
            "Ended in an hour",
            "none",
            {"{{result}}": f"increase(headgate_checkpoints_total{{{JOB}}}[1h])"},
        ),
    ],
    "Workers": [
        ("Memory", "bytes", {"{{worker}}": f"headgate_worker_resident_bytes{{{JOB}}}"}),
        ("Processors", "none", {"{{worker}}": f"rate(headgate_worker_cpu_seconds_total{{{JOB}}}[1m])"}),
        (
            "Garbage collector",
            "percentunit",
            {"{{worker}}": f"rate(headgate_worker_gc_seconds_total{{{JOB}}}[1m])"},
        ),
    ],
}

ALERTS: Final[dict[str, tuple[str, str, str]]] = {
    "HeadgateNoCheckpoint": (
        "time() - headgate_checkpoint_last_completed_timestamp_seconds > 300",
        "1m",
        "Job {{ $labels.job_name }} has had no complete checkpoint for 5 minutes.",
    ),
    "HeadgateRestarts": (
        "increase(headgate_restarts_total[10m]) > 3",
        "0m",
        "Job {{ $labels.job_name }} has restarted more than three times in 10 minutes.",
    ),
    "HeadgateCheckpointsFail": (
        'increase(headgate_checkpoints_total{result="failed"}[10m]) > 3',
        "0m",
        "More than three checkpoints of job {{ $labels.job_name }} have failed in 10 minutes.",
    ),
    "HeadgateLagGrows": (
        "deriv(headgate_watermark_timestamp_seconds[15m]) < 0.9",
        "15m",
        "Event time of {{ $labels.operator }} in job {{ $labels.job_name }} falls behind the clock.",
    ),
    "HeadgateSourceFallsBehind": (
        "deriv(sum by (job_name, operator) (headgate_source_pending_records)[15m:1m]) > 0",
        "15m",
        "Source {{ $labels.operator }} of job {{ $labels.job_name }} falls behind the end of its input.",
    ),
    "HeadgateWritesStopped": (
        "max by (job_name, operator) (headgate_rocksdb_stopped_databases) > 0",
        "1m",
        "RocksDB holds up {{ $labels.operator }} of job {{ $labels.job_name }}: its disk is too slow.",
    ),
    "HeadgateBadRecords": (
        "increase(headgate_bad_records_skipped_total[10m]) > 0",
        "0m",
        "Source {{ $labels.operator }} of job {{ $labels.job_name }} has skipped records.",
    ),
}
"""Name -> expression, for how long it must hold, and what it says."""


def dashboard() -> dict[str, Any]:
    """The dashboard in Grafana's form."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row, drawn in ROWS.items():
        place = {"x": 0, "y": top, "w": WIDTH, "h": TITLE}
        panels.append({"id": len(panels) + 1, "type": "row", "title": row, "gridPos": place, "panels": []})
        width = WIDTH // len(drawn)
        for number, panel in enumerate(drawn):
            place = {"x": number * width, "y": top + TITLE, "w": width, "h": HEIGHT}
            panels.append(_panel(len(panels) + 1, panel, place))
        top += TITLE + HEIGHT
    return {
        "title": "Headgate",
        "uid": "headgate",
        "schemaVersion": 39,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "templating": {"list": [_source(), _job()]},
        "panels": panels,
    }


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    title, unit, lines = panel
    source = {"type": "prometheus", "uid": "${source}"}
    targets = [
        {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": name, "datasource": source}
        for at, (name, expression) in enumerate(lines.items())
    ]
    defaults = {"unit": unit, "min": 0, "custom": {"fillOpacity": 10}}
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "gridPos": place,
        "datasource": source,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": targets,
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _job() -> dict[str, Any]:
    query = "label_values(headgate_job_state, job_name)"
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "name": "job",
        "type": "query",
        "label": "Job",
        "datasource": source,
        "definition": query,
        "query": {"query": query, "refId": "jobs"},
        "refresh": 2,
    }


def alerts() -> str:
    """The rules in Prometheus' form."""
    lines = ["# Alerts for jobs of Headgate. Written by scripts/generate_dashboard.py.", "groups:"]
    lines += ["  - name: headgate", "    rules:"]
    for name, (expression, lasting, text) in ALERTS.items():
        lines += [
            f"      - alert: {name}",
            f"        expr: {json.dumps(expression)}",
            f"        for: {lasting}",
        ]
        lines += ["        annotations:", f"          summary: {json.dumps(text)}"]
    return "\n".join([*lines, ""])


def files() -> dict[Path, str]:
    """File -> what it contains."""
    return {
        FOLDER / "grafana-dashboard.json": json.dumps(dashboard(), indent=2) + "\n",
        FOLDER / "prometheus-alerts.yaml": alerts(),
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
