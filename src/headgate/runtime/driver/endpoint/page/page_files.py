"""The files of the page, which every browser may read without the secret: a list of exact paths, no folder.

They hold nothing of any job. What a page may load and do is limited by its Content-Security-Policy: only what
comes from the endpoint itself, nothing that is written into the page as text.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    "": "text/plain; charset=utf-8",
}
_FOLDER: Final = Path(__file__).parent / "static"
_MODULES: Final = (
    *(
        "actions",
        "app",
        "asking",
        "charts",
        "checkpoints",
        "ends",
        "failures",
        "graph",
        "live",
        "logs",
        "making",
        "output",
    ),
    *("overview", "profile", "settings", "state", "subtasks", "wording"),
)
_OTHERS: Final = ("app.css", "icon.svg", "uplot/uPlot.iife.min.js", "uplot/uPlot.min.css", "uplot/LICENSE")
FILES: Final = {
    "/": "index.html",
    **{f"/page/{name}": name for name in (*(f"{name}.js" for name in _MODULES), *_OTHERS)},
}
"""Path of a request: the file below `static` that answers it."""

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


async def page_file(request: Request) -> Response:
    """Return the file of the page at the request's path, which must be one of :data:`FILES`."""
    name = FILES[request.url.path]
    return Response(_content(name), headers=HEADERS, media_type=_KINDS[Path(name).suffix])


@cache
def _content(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()
