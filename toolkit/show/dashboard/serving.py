"""The page of a log that grows, and its server on this machine alone, behind a token in the address."""

from __future__ import annotations

import hmac
import html
import json
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from string import Template
from typing import Any

from toolkit.show.dashboard.page import read_asset, text_hash

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""What a request may call this machine. A foreign name is that of a page elsewhere whose address was turned here."""
TOKEN_BYTES = 24
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
REFRESH_S = 2
"""Seconds between two questions of the page."""


def live_page_and_policy(title: str) -> tuple[str, str]:
    """The document, and its security policy, which allows its own script and style, and requests to its server."""
    script = f'"use strict";\n{read_asset("rounding.js")}\n{read_asset("live.js")}'
    style = read_asset("page.css") + read_asset("live.css")
    document = Template(read_asset("live.html")).substitute(
        title=html.escape(title), style=style, script=script, every=REFRESH_S * 1000,
        maker=f"Made by thinkback {version('thinkback')}. It loads nothing from elsewhere.",
    )  # fmt: skip
    policy = (
        f"default-src 'none'; script-src {text_hash(script)}; style-src {text_hash(style)}; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return document, policy


class PageServer(ThreadingHTTPServer):
    """Serves `document` at /TOKEN/ and, as JSON, what `state` gives at /TOKEN/state; to anything else it says 403.

    The token is drawn anew for each server. `port` 0 is a free one.
    """

    daemon_threads = True

    def __init__(self, document: str, policy: str, state: Callable[[], Mapping[str, Any]], port: int = 0):
        self.document, self.policy, self.state = document, policy, state
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        """The address of the page, with the token."""
        return f"http://{HOST}:{self.server_address[1]}/{self.token}/"

    def reply_to(self, path: str, host: str) -> tuple[HTTPStatus, str, str]:
        """The status, type and text that answer a request for a path, addressed to a host."""
        _, _, rest = path.partition("/")
        token, _, wanted = rest.partition("/")
        known = hmac.compare_digest(token.encode(), self.token.encode()) and host.rpartition(":")[0] in NAMES
        if known and wanted == "":
            return HTTPStatus.OK, "text/html; charset=utf-8", self.document
        if known and wanted == "state":
            return HTTPStatus.OK, "application/json", json.dumps(self.state())
        return HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", "Open the address that the command printed.\n"


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; only GET is known."""

    server: PageServer
    server_version, sys_version = "thinkback", ""
    timeout = 10

    def do_GET(self) -> None:
        status, kind, text = self.server.reply_to(self.path, self.headers.get("Host", ""))
        body = text.encode("utf-8")
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), **HEADERS}
        for name, value in {**headers, "Content-Security-Policy": self.server.policy}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Logs nothing, since addresses have the token."""
