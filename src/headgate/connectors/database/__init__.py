"""Tables of databases, through the drivers' DB-API: rows are put by key, exactly once.

Drivers never live here: a program gives the function that connects.
"""

from headgate.connectors.database.sink import database_sink

__all__ = ["database_sink"]
