"""Telemetry for OpenTelemetry's collectors: metrics, traces of checkpoints and recoveries, the driver's log.

Everything is sent by OpenTelemetry's own client, in one thread of the driver, and nothing waits for it.
Workers load nothing of it. What is measured is decided in `headgate.metrics`, not here.
"""
