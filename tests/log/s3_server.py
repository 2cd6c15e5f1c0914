"""A small S3 server that serves a folder and misbehaves when told to, and pyarrow's S3 client for it, for fsspec."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import AwsDefaultS3RetryStrategy, S3FileSystem

TROUBLES = ("refused", "broken", "cut", "other bytes")
"""An error of the caller, one of the server, a connection that ends within a body, a byte that is not the file's."""


class S3Server:
    """Serves `folder` as the bucket `bucket`; from the GET number `good` on, bodies come with the `trouble`."""

    def __init__(self, folder: Path):
        self.folder, self.trouble, self.good, self.gets = folder, "", 0, 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                server.answer(self, body=False)

            def do_GET(self) -> None:
                server.answer(self, body=True)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.endpoint = f"127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, to: BaseHTTPRequestHandler, body: bool) -> None:
        asked = urlsplit(to.path)
        key = unquote(asked.path).removeprefix("/bucket").strip("/")
        query = parse_qs(asked.query, keep_blank_values=True)
        if "list-type" in query:
            self._send(to, 200, self._listed(query), {}, body)
        elif not (self.folder / key).is_file():
            self._send(to, 404, b"<Error><Code>NoSuchKey</Code><Message>gone</Message></Error>", {}, body)
        else:
            self._send_file(to, (self.folder / key).read_bytes(), body)

    def _send_file(self, to: BaseHTTPRequestHandler, data: bytes, body: bool) -> None:
        status, headers, whole = 200, {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}, len(data)
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", to.headers.get("Range", "")):
            start, end = int(wanted[1]), min(int(wanted[2] or whole - 1), whole - 1)
            status, data = 206, data[start : end + 1]
            headers["Content-Range"] = f"bytes {start}-{end}/{whole}"
        self.gets += body
        trouble = self.trouble if body and self.gets > self.good else ""
        if trouble in ("refused", "broken"):
            status = {"refused": 403, "broken": 500}[trouble]
            data = b"<Error><Code>AccessDenied</Code><Message>not today</Message></Error>"
        if trouble == "other bytes" and len(data) > 2:
            data = data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0x40]) + data[len(data) // 2 + 1 :]
        self._send(to, status, data, headers, body, cut=trouble == "cut")

    def _listed(self, query: dict[str, list[str]]) -> bytes:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys = sorted(p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*") if p.is_file())
        keys = [key for key in keys if key.startswith(prefix)]
        within = {key for key in keys if not delimiter or delimiter not in key[len(prefix) :]}
        folders = {prefix + key[len(prefix) :].partition(delimiter)[0] + delimiter for key in set(keys) - within}
        made = "".join(
            f"<Contents><Key>{key}</Key><Size>{(self.folder / key).stat().st_size}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in sorted(within)
        )
        made += "".join(f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" for name in sorted(folders))
        count = f"<KeyCount>{len(within) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        return f"<ListBucketResult><Name>bucket</Name>{count}{made}</ListBucketResult>".encode()

    @staticmethod
    def _send(
        to: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str], body: bool, cut: bool = False
    ) -> None:
        to.send_response(status)
        for name, value in headers.items():
            to.send_header(name, value)
        to.send_header("Content-Length", str(len(data)))
        to.end_headers()
        if body:
            to.wfile.write(data[: len(data) // 2] if cut else data)
        to.close_connection = cut


class ArrowS3(ArrowFSWrapper):
    """pyarrow's own S3 client, asking once, under the scheme `arrows3`."""

    protocol = "arrows3"
    cachable = False
    endpoint = ""

    def __init__(self, **_: Any):
        retries = AwsDefaultS3RetryStrategy(max_attempts=0)
        client = S3FileSystem(
            anonymous=True, scheme="http", endpoint_override=type(self).endpoint, region="us-east-1",
            retry_strategy=retries, connect_timeout=5, request_timeout=5,
        )  # fmt: skip
        super().__init__(fs=client)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("arrows3://").rstrip("/")
