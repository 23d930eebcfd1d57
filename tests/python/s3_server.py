"""An S3 server on loopback, with objects in memory, and faults on request.

It speaks GET, HEAD, ranges, If-Match, ETags, ListObjectsV2 and the errors of S3, as far as clients
that read need it. For tests of what batches are; measuring is done with a quicker one.
"""

from __future__ import annotations

import hashlib
import ssl
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from pathlib import Path

KEY = "reader"


class S3Server:
    """A server; `buckets` are its objects, by bucket and key.

    Parameters
    ----------
    handler
        What answers, where it is not S3.
    certificate
        A file with a certificate and its key, for a server that speaks TLS.

    Attributes
    ----------
    errors, resets, truncations
        How many first requests for each object are answered with 503, not at all, or with a half.
    latency
        Seconds before each answer.
    requests
        All so far, as (method, path).
    """

    def __init__(
        self, handler: type[Handler] | None = None, certificate: Path | None = None
    ) -> None:
        self.buckets: dict[str, dict[str, bytes]] = {}
        self.latency = 0.0
        # Whether the last page of a listing says that there is more, and what comes then is itself.
        self.repeats = False
        self.errors = self.resets = self.truncations = 0
        self.requests: list[tuple[str, str]] = []
        self.in_flight = self.most_in_flight = 0
        self._attempts: Counter[str] = Counter()
        self._lock = threading.Lock()
        server = self

        class Answers(handler or Handler):  # type: ignore[misc, valid-type]
            of = server

        class Http(ThreadingHTTPServer):
            daemon_threads = True
            # Clients open many connections at once.
            request_queue_size = 256

        self._http = Http(("127.0.0.1", 0), Answers)
        self._scheme = "http"
        if certificate is not None:
            self._scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            # The handshake is made by the thread that answers, not by the one that accepts.
            self._http.socket = context.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}"

    @property
    def options(self) -> dict[str, str]:
        """What a client must be told."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": KEY,
            "secret_access_key": "secret",
            "region": "us-east-1",
        }

    def objects_read(self) -> int:
        """How many objects, or parts of some, were asked for so far."""
        return sum(method == "GET" and "list-type" not in path for method, path in self.requests)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def begin(self, method: str, path: str) -> None:
        with self._lock:
            self.requests.append((method, path))
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)

    def end(self) -> None:
        with self._lock:
            self.in_flight -= 1

    def attempt(self, path: str) -> int:
        with self._lock:
            self._attempts[path] += 1
            return self._attempts[path]


class Handler(BaseHTTPRequestHandler):
    """What S3 answers."""

    of: S3Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.of.begin(self.command, self.path)
        try:
            self._answer()
        finally:
            self.of.end()

    no_bucket = "NoSuchBucket"

    def denied(self) -> tuple[str, str] | None:
        """Return the code and the words for who may not read."""
        if f"Credential={KEY}/" in self.headers.get("Authorization", ""):
            return None
        return "InvalidAccessKeyId", "The key does not exist in our records."

    def _answer(self) -> None:
        time.sleep(self.of.latency)
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        if (refused := self.denied()) is not None:
            return self._refuse(403, *refused)
        if bucket not in self.of.buckets:
            return self._refuse(404, self.no_bucket, "The specified bucket does not exist")
        objects = self.of.buckets[bucket]
        if not key:
            return self.list(bucket, objects, parse_qs(parts.query))
        attempt = self.of.attempt(parts.path)
        if attempt <= self.of.errors:
            return self._refuse(503, "ServiceUnavailable", "Please try again.")
        attempt -= self.of.errors
        if attempt <= self.of.resets:
            self.close_connection = True
            return None
        attempt -= self.of.resets
        content = objects.get(key)
        if content is None:
            return self._refuse(404, "NoSuchKey", "The specified key does not exist.")
        return self._object(key, content, is_cut=attempt <= self.of.truncations)

    def _object(self, key: str, content: bytes, *, is_cut: bool) -> None:
        etag = etag_of(content)
        if self.headers.get("If-Match", etag) != etag:
            return self._refuse(412, "PreconditionFailed", "The condition did not hold")
        wanted, size = self.headers.get("Range"), len(content)
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or size - 1) + 1, size)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
            content = content[start:end]
        else:
            self.send_response(200)
        self.send_header("ETag", etag)
        self.send_header("Last-Modified", "Wed, 01 Jan 2025 00:00:00 GMT")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            if is_cut:
                self.close_connection = True
                content = content[: len(content) // 2]
            self.wfile.write(content)
        return None

    def list(self, bucket: str, objects: dict[str, bytes], query: dict[str, list[str]]) -> None:
        """Answer with a page of a listing."""
        (prefix,) = query.get("prefix", [""])
        (after,) = query.get("continuation-token", [""])
        page, more = paged(objects, prefix, after)
        if self.of.repeats:
            # The second page for ever.
            page, more = (sorted(objects)[1000:] if after else page), True
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(objects[key])}</Size>"
            f"<LastModified>2025-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{escape(etag_of(objects[key]))}</ETag></Contents>"
            for key in page
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        self.send(
            200,
            f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{entries}{token}</ListBucketResult>",
        )

    def _refuse(self, status: int, code: str, message: str) -> None:
        self.send(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>")

    def send(self, status: int, text: str) -> None:
        """Answer with a text."""
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


def paged(objects: dict[str, bytes], prefix: str, after: str) -> tuple[list[str], bool]:
    """Return at most 1,000 keys, and whether there are more."""
    found = sorted(key for key in objects if key.startswith(prefix) and key > after)
    return found[:1000], len(found) > 1000


def etag_of(content: bytes) -> str:
    """Return another text for each content."""
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
