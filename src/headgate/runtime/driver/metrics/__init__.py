"""The metrics of a running job as the driver tells them to others: over all attempts, and as text.

Workers measure, and know nothing of formats; what is told here is read from what their heartbeats brought.
"""
