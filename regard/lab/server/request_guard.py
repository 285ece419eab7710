"""Who is answered: pages of this server, on this machine, that hold the key of this launch.

A local server is reached by every page that the learner's browser has open, and by every user of the machine. So
each request passes five doors, in this order:

    Host          an address of this machine: a foreign name means that a page had it point here (DNS rebinding)
    Origin        where the browser says who asks, it must be this page
    key           /api needs the token of this launch in a header, the page itself a cookie; `/?key=…` gives it
    content type  what is posted is JSON: a form of another page cannot be
    size          a body ends at the limit, whatever its length claims

Every answer carries the rules for the browser: nothing is loaded from elsewhere, nothing frames this page.
"""

import ipaddress
import json
from collections.abc import Mapping
from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER = "x-regard-token"
POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
DROPPED = 32 << 20  # bytes that are read without being kept
RULES = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
CLOSED = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>regard lab</title>'
    "<h1>regard lab</h1><p>Open the address that <code>regard lab</code> printed: it holds the key of this launch.</p>"
    '<p lang="zh">请打开 <code>regard lab</code> 打印出的网址：其中带有本次启动的密钥。</p></html>'
)


class _Refused(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Guard:
    """ASGI middleware that lets only the lab's own page through."""

    def __init__(self, app: ASGIApp, *, token: str, body_limit: int, loopback: bool = True) -> None:
        self.app, self.token, self.body_limit, self.loopback = app, token, body_limit, loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"the lab speaks HTTP alone, got {scope['type']}")

        async def with_rules(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in RULES.items()),
                ]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            host = self._host(headers)
            self._origin(headers, host)
            if scope["path"] == "/":
                if await self._door(scope, headers, host, with_rules):
                    return
            elif scope["path"].startswith("/api/"):
                self._api(scope["method"], headers)
            receive = await self._whole(receive, headers)
        except _Refused as refused:
            await _answer(with_rules, refused)
            return
        await self.app(scope, receive, with_rules)

    def _host(self, headers: Mapping[str, str]) -> str:
        """The Host header, which must be an address and no name that someone else can give to this machine."""
        host = headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        try:
            address = ipaddress.ip_address("127.0.0.1" if name == "localhost" else name)
        except ValueError:
            address = None
        if address is None or (self.loopback and not address.is_loopback):
            raise _Refused(421, "host", f"the lab answers at 127.0.0.1 or localhost, not as {host!r}")
        return host

    def _origin(self, headers: Mapping[str, str], host: str) -> None:
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            raise _Refused(403, "origin", f"the lab answers its own page, http://{host}, not {origin!r}")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            raise _Refused(403, "origin", "the lab answers its own page, not one of another site")

    async def _door(self, scope: Scope, headers: Mapping[str, str], host: str, send: Send) -> bool:
        """The page itself: `/?key=…` leaves the key as a cookie, and without it there is only a hint."""
        name = f"regard-{host.rpartition(':')[2]}"  # cookies do not know ports
        given = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
        if self._is_key(given):
            cookie = f"{name}={self.token}; Path=/; HttpOnly; SameSite=Lax"
            await _send(send, 303, b"", {"location": "/", "set-cookie": cookie, "cache-control": "no-store"})
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            cookies = SimpleCookie()
        if name not in cookies or not self._is_key(cookies[name].value):
            await _send(send, 403, CLOSED.encode(), {"content-type": "text/html; charset=utf-8"})
            return True
        return False

    def _api(self, method: str, headers: Mapping[str, str]) -> None:
        if not self._is_key(headers.get(TOKEN_HEADER, "")):
            raise _Refused(403, "token", f"the header {TOKEN_HEADER} must hold the token of this launch")
        media = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method not in ("GET", "HEAD", "DELETE") and media != "application/json":
            raise _Refused(415, "media", f"post JSON, with content-type application/json, got {media or 'none'!r}")

    def _is_key(self, given: str) -> bool:
        return compare_digest(given.encode(), self.token.encode())

    async def _whole(self, receive: Receive, headers: Mapping[str, str]) -> Receive:
        """The body, kept up to the limit. What is somewhat longer is read and dropped, so that the refusal arrives."""
        too_large = _Refused(413, "large", f"a request may hold {self.body_limit} bytes at most")
        claimed = headers.get("content-length", "0")
        if not claimed.isdecimal() or int(claimed) > DROPPED:
            raise too_large
        body, size = bytearray(), 0
        while True:
            message = await receive()
            part = message.get("body", b"")
            size += len(part)
            if size <= self.body_limit:
                body += part
            if size > DROPPED or message["type"] == "http.disconnect" or not message.get("more_body"):
                break
        if size > self.body_limit:
            raise too_large
        given: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return given.pop() if given else await receive()

        return replay


async def _answer(send: Send, refused: _Refused) -> None:
    error: dict[str, Any] = {"code": refused.code, "message": refused.message}
    headers = {"content-type": "application/json", "connection": "close"}
    await _send(send, refused.status, json.dumps({"error": error}).encode(), headers)


async def _send(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    head = [(name.encode(), value.encode()) for name, value in {**headers, "content-length": str(len(body))}.items()]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
