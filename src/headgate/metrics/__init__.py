"""What a job measures: the table of its metrics, and histograms that can be merged.

Nothing here measures, sends or shows a metric: workers measure, the heartbeat carries, the driver shows.
"""
