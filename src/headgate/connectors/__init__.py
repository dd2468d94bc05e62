"""Sources and sinks that come with Headgate; see `headgate.api.source` and `headgate.api.sink`.
The modules are imported one by one (``from headgate.connectors.files import json_source``), so that a job
loads only the libraries of the connectors it uses.
"""
