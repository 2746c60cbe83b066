"""A provider of identities on loopback: a real HTTP server with a key of its own, which lets its one account in.

It keeps the rules of a provider: a code is good once, for the client, the redirect and the verifier that it was asked
for with. What a bad provider would do is set on it by the test.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.server import OpenIdSettings
from tests.serving import listening

CLIENT = "holdfast"
SECRET = "a secret with : and % in it"


class LocalProvider:
    """Its state: the account that logs in, the keys, and what it does wrong."""

    def __init__(self) -> None:
        self.issuer = ""
        self.key: ECKey | RSAKey = ECKey.generate_key("P-256", {"kid": "first", "use": "sig"})
        self.published = [self.key.as_dict(private=False)]
        self.account: dict[str, Any] = {"sub": "account-1", "preferred_username": "ann"}
        self.userinfo: dict[str, Any] = {}
        self.described: dict[str, Any] = {}
        self.twist: Callable[[dict[str, Any]], Any] = lambda claims: None
        self.sign: Callable[[dict[str, Any]], str] = self._signed
        self.refusal: dict[str, str] | None = None
        self.is_silent = asyncio.Event()
        self.seen: list[str] = []
        self.sent: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}

    def rotate(self) -> None:
        """Sign with a new key, and forget the old one."""
        self.key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig"})
        self.published = [self.key.as_dict(private=False)]

    def _signed(self, claims: dict[str, Any]) -> str:
        algorithm = "ES256" if isinstance(self.key, ECKey) else "RS256"
        return jwt.encode({"alg": algorithm, "kid": self.key.kid}, claims, self.key, algorithms=[algorithm])

    # -- routes ----------------------------------------------------------------------------------------------------

    async def describe(self, request: Request) -> Response:
        self.seen.append("describe")
        if self.is_silent.is_set():
            await asyncio.Event().wait()
        there = self.issuer
        return JSONResponse(
            {
                "issuer": there,
                "authorization_endpoint": f"{there}/authorize",
                "token_endpoint": f"{there}/token",
                "jwks_uri": f"{there}/keys",
                "userinfo_endpoint": f"{there}/userinfo",
                "end_session_endpoint": f"{there}/leave",
                "authorization_response_iss_parameter_supported": True,
                **self.described,
            }
        )

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.sent.append(asked)
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": self.issuer}
        if self.refusal is not None:
            answer = {**self.refusal, "state": asked["state"], "iss": self.issuer}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 302)

    async def token(self, request: Request) -> Response:
        self.seen.append("token")
        typed = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        asked = self._codes.pop(typed.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(typed.get("code_verifier", "").encode()).digest())
        known = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if request.headers.get("authorization") != f"Basic {known}":
            return JSONResponse({"error": "invalid_client"}, 401)
        if (
            asked is None
            or challenge.rstrip(b"=").decode() != asked["code_challenge"]
            or typed["redirect_uri"] != asked["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims.update(self.account)
        self.twist(claims)
        return JSONResponse({"access_token": "opaque", "token_type": "Bearer", "id_token": self.sign(claims)})

    async def keys(self, request: Request) -> Response:
        self.seen.append("keys")
        return JSONResponse({"keys": self.published})

    async def show(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer opaque"
        return JSONResponse(self.userinfo)

    @property
    def asgi(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.describe),
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
                Route("/keys", self.keys),
                Route("/userinfo", self.show),
            ]
        )

    def settings(self, **more: Any) -> OpenIdSettings:
        """Settings for this provider: names are ``preferred_username``, everybody is of tenant acme."""
        given = {"user": "preferred_username", "tenant": "acme", "client_secret": "OIDC", "title": "Example ID", **more}
        return OpenIdSettings(issuer=self.issuer, client_id=CLIENT, **given)


@asynccontextmanager
async def providing() -> AsyncIterator[LocalProvider]:
    """A provider that listens."""
    provider = LocalProvider()
    async with listening(provider.asgi) as address:
        provider.issuer = address
        yield provider


def query_of(address: str) -> dict[str, str]:
    """The query of an address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
