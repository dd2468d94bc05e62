"""The rules of functions of dates, timestamps and durations, a file for each subject."""
