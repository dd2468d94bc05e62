"""What is decided when a job begins from a snapshot: where it goes on, and which subtask starts from which
stored bytes.

No state is read or converted here, and no job runs.
"""
