"""Access control: only the lab's own page, on this machine, with the key of this launch, is answered.

A local server can be reached by every page that is open in the user's browser and by every user of the machine. Each
request is therefore checked in this order:

    Host          must be an address of this machine; another name means that it was made to point here (DNS rebinding)
    Origin        when the browser sends one, it must be the lab's own page
    key           /api needs the token of this launch in a header, the page itself in a cookie, set by `/?key=…`
    content type  posted data must be JSON, which a form on another page cannot send
    size          the body is cut off at the limit, whatever Content-Length says

Every response carries headers that forbid the browser to load anything from other hosts or to frame the page.
"""

import ipaddress
import json
from collections.abc import Mapping
from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER = "x-regard-token"
POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
READ_LIMIT = 32 << 20  # bytes of a too large body that are read and dropped, so that the client receives the refusal
SECURITY_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
NO_KEY_PAGE = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>regard lab</title>'
    "<h1>regard lab</h1><p>Open the address that <code>regard lab</code> printed: it contains the access key.</p>"
    '<p lang="zh">请打开 <code>regard lab</code> 输出的网址，其中包含访问密钥。</p></html>'
)


class _Refused(Exception):
    """A request that is refused, with its HTTP status."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Guard:
    """ASGI middleware that refuses every request that is not from the lab's own page."""

    def __init__(self, app: ASGIApp, *, token: str, body_limit: int, loopback: bool = True) -> None:
        self.app, self.token, self.body_limit, self.loopback = app, token, body_limit, loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP requests are supported, got {scope['type']}")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                security = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
                message["headers"] = [*message["headers"], *security]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            host = self._check_host(headers)
            self._check_origin(headers, host)
            if scope["path"] == "/":
                if await self._answer_without_key(scope, headers, host, send_with_headers):
                    return
            elif scope["path"].startswith("/api/"):
                self._check_api(scope["method"], headers)
            receive = await self._read_body(receive, headers)
        except _Refused as refused:
            body = json.dumps({"error": {"code": refused.code, "message": refused.message}}).encode()
            json_headers = {"content-type": "application/json", "connection": "close"}
            await _send(send_with_headers, refused.status, body, json_headers)
            return
        await self.app(scope, receive, send_with_headers)

    def _check_host(self, headers: Mapping[str, str]) -> str:
        """Return the Host header; refuse names except localhost, since DNS rebinding can point them to this machine."""
        host = headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        try:
            address = ipaddress.ip_address("127.0.0.1" if name == "localhost" else name)
        except ValueError:
            address = None
        if address is None or (self.loopback and not address.is_loopback):
            raise _Refused(421, "host", f"the lab must be opened as 127.0.0.1 or localhost, got {host!r}")
        return host

    def _check_origin(self, headers: Mapping[str, str], host: str) -> None:
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            raise _Refused(403, "origin", f"requests must come from http://{host}, got {origin!r}")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            raise _Refused(403, "origin", "requests must come from the lab's own page, got one from another site")

    async def _answer_without_key(self, scope: Scope, headers: Mapping[str, str], host: str, send: Send) -> bool:
        """Answer a page request without cookie: set it for `/?key=…`, else explain. Return whether it was answered."""
        name = f"regard-{host.rpartition(':')[2]}"  # cookies are shared by all ports of a host
        key = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
        if self._is_key(key):
            cookie = f"{name}={self.token}; Path=/; HttpOnly; SameSite=Lax"
            await _send(send, 303, b"", {"location": "/", "set-cookie": cookie, "cache-control": "no-store"})
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            cookies = SimpleCookie()
        if name not in cookies or not self._is_key(cookies[name].value):
            await _send(send, 403, NO_KEY_PAGE.encode(), {"content-type": "text/html; charset=utf-8"})
            return True
        return False

    def _check_api(self, method: str, headers: Mapping[str, str]) -> None:
        if not self._is_key(headers.get(TOKEN_HEADER, "")):
            raise _Refused(403, "token", f"the header {TOKEN_HEADER} must contain the token of this launch")
        media = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method not in ("GET", "HEAD", "DELETE") and media != "application/json":
            raise _Refused(415, "media", f"the content-type must be application/json, got {media or 'none'!r}")

    def _is_key(self, key: str) -> bool:
        return compare_digest(key.encode(), self.token.encode())

    async def _read_body(self, receive: Receive, headers: Mapping[str, str]) -> Receive:
        """Read the body up to the limit and return a `receive` that replays it."""
        too_large = _Refused(413, "large", f"a request may contain at most {self.body_limit} bytes")
        claimed = headers.get("content-length", "0")
        if not claimed.isdecimal() or int(claimed) > READ_LIMIT:
            raise too_large
        body, size = bytearray(), 0
        while True:
            message = await receive()
            part = message.get("body", b"")
            size += len(part)
            if size <= self.body_limit:
                body += part
            if size > READ_LIMIT or message["type"] == "http.disconnect" or not message.get("more_body"):
                break
        if size > self.body_limit:
            raise too_large
        messages: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        return replay


async def _send(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    head = [(name.encode(), value.encode()) for name, value in {**headers, "content-length": str(len(body))}.items()]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
