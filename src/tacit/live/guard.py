"""Who may ask the live view for anything: checked before every request.

On a loopback address, the name in the Host header must be a loopback name: a page of another site
whose name was bent to this machine (DNS rebinding) has another one. With a token, every request
carries it, in a header or in a cookie that the first visit sets. A request that changes something
must come from our own page: it carries a secret that only this page can read.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSRF = "x-tacit-page"
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """The application behind the checks; ``csrf`` is for the page alone."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, token: str | None) -> None:
        self._app, self._loopback, self._token = app, is_loopback(host), token
        self._names = {f"{name}:{port}" for name in ("localhost", "127.0.0.1", "[::1]")}
        if port == 80:
            self._names |= {"localhost", "127.0.0.1", "[::1]"}
        if self._loopback:
            self._names.add(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        self._cookie = f"tacit-{port}"  # cookies do not know ports
        self._session = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers, sets_cookie = Headers(scope=scope), False
        refusal = self._wrong_place(headers)
        if refusal is None and self._token is not None:
            sets_cookie = self._in_address(scope)
            if not sets_cookie and not self._carries_token(headers):
                refusal = _refuse(401, "a token is needed: use the address that was printed.")
        if refusal is None and scope["method"] not in ("GET", "HEAD"):
            refusal = self._foreign(scope, headers)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                told = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    told.setdefault(name, value)
                if sets_cookie:
                    rules = "HttpOnly; SameSite=Strict; Path=/"
                    told.append("set-cookie", f"{self._cookie}={self._session}; {rules}")
            await send(message)

        scope.setdefault("state", {})["csrf"] = self.csrf
        await (refusal or self._app)(scope, receive, guarded)

    def _wrong_place(self, headers: Headers) -> Response | None:
        if self._loopback and headers.get("host", "").lower() not in self._names:
            return _refuse(421, "this name does not belong to the live view: use 127.0.0.1.")
        return None

    def _in_address(self, scope: Scope) -> bool:
        """Whether the address has the right token: only the page itself takes it from there."""
        if scope["path"] != "/" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        return _same(given[0], self._token or "")

    def _carries_token(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(given.strip(), self._token or ""):
            return True
        try:
            kept = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return kept is not None and _same(kept.value, self._session)

    def _foreign(self, scope: Scope, headers: Headers) -> Response | None:
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        own = f"{scope['scheme']}://{headers.get('host', '')}"
        ours = site in (None, "same-origin") and (origin is None or origin == own)
        if ours and _same(headers.get(CSRF, ""), self.csrf):
            return None
        return _refuse(403, "this request does not come from the page of the live view.")


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _refuse(code: int, sentence: str) -> Response:
    return PlainTextResponse(sentence + "\n", code)
