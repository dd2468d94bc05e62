"""The web page of a running job: what the driver remembers for it, its routes, and the page's own files.

Nothing here decides or changes anything: the page's buttons use the requests that the commands use, too.
"""
