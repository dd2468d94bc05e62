"""The rules of functions of dates, timestamps and durations, a file for each subject.

Nothing here asks for the present time, which differs between attempts of a job.
"""
