"""What is decided when a job begins from a snapshot. No state is read or converted here, and no job runs."""
