"""
The page at ``/``: a few files beside this module, without references to other hosts.

Their policy lets a browser run and load only what this server sends, and nothing inline.
"""

from __future__ import annotations

from importlib import resources

FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Referrer-Policy": "no-referrer",
}


def read_file(path: str) -> tuple[bytes, str]:
    """The content and media type of the file at a path of `FILES`."""
    name, media_type = FILES[path]
    return resources.files("puffin.server").joinpath("web", name).read_bytes(), media_type
