"""The rules of SQL functions of dates, timestamps and durations, a module for each subject.

Nothing here asks for the present time, which differs between attempts of a job.
"""
