"""Undoes what a function has done to keyed state and timers for the record at work, which it failed on.

Only operators that go on without bad records keep a journal; others never see this room.
"""
