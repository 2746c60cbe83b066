"""The provider of identities: what it says of itself, its keys, and what it says of a person. All of it is checked.

The code flow with PKCE. Nothing that a browser brings is believed: the code is exchanged over a connection of our own,
and the ID token's signature, issuer, audience, times and nonce are checked. Only signatures with a public key count, so
no token can be signed with something that others know.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import msgspec
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, KeySet
from joserfc.jws import JWSRegistry

from holdfast.errors import ProviderFailed, SecretMissing
from holdfast.server.openid.settings import OpenIdSettings, is_safe_url
from holdfast.transports.secrets import login_secret

log = logging.getLogger("holdfast.server")

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
"""Signatures that count. All are made with a private key that only the provider has."""

ANSWER_SECONDS: Final = 10.0
KEPT_SECONDS: Final = 3600.0
AGAIN_SECONDS: Final = 5.0
"""After a failure, and after fetching keys, nothing is asked again before this time."""

LARGEST: Final = 2**20
LONGEST_HEADER: Final = 16_000
"""Some providers put their certificates into the header of a token."""

_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class ProviderMetadata(msgspec.Struct, frozen=True):
    """What a provider says of itself, as far as it counts."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    authorization_response_iss_parameter_supported: bool = False
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)

    @property
    def endpoints(self) -> tuple[str, ...]:
        optional = [each for each in (self.userinfo_endpoint, self.end_session_endpoint) if each]
        return self.authorization_endpoint, self.token_endpoint, self.jwks_uri, *optional


class LoginSecrets(msgspec.Struct, frozen=True):
    """What one login is known by. The browser keeps it meanwhile; the provider sees the state, the nonce, and a digest
    of the verifier."""

    state: str
    nonce: str
    verifier: str
    to: str = ""
    again: bool = False


class Provider:
    """One provider. What it says of itself is kept for an hour; its keys as well, or until a new one is used."""

    def __init__(
        self,
        settings: OpenIdSettings,
        *,
        secret_of: Callable[[str], Awaitable[str]] = login_secret,
        clock: Callable[[], float] = time.time,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._settings = settings
        self._secret_of = secret_of
        self._clock = clock
        self._answer_seconds = answer_seconds
        self._lock = asyncio.Lock()
        self._certificates = httpx.create_ssl_context()  # to make one costs more than to ask
        self._metadata: ProviderMetadata | None = None
        self._metadata_at = 0.0
        self._failed_at = float("-inf")
        self._keys = KeySet([])
        self._keys_at = float("-inf")

    async def metadata(self) -> ProviderMetadata:
        """What the provider says of itself. Raises ProviderFailed."""
        async with self._lock:
            if self._metadata is None or self._clock() - self._metadata_at > KEPT_SECONDS:
                if self._clock() - self._failed_at < AGAIN_SECONDS:
                    raise ProviderFailed("the provider did not answer a moment ago: try again soon.")
                try:
                    self._metadata = await self._discovered()
                except ProviderFailed:
                    self._failed_at = self._clock()
                    raise
                self._metadata_at = self._clock()
            return self._metadata

    async def login_address(self, secrets: LoginSecrets, redirect: str) -> str:
        """Where a browser goes to log in; ``again`` to be asked for the password in any case. Raises ProviderFailed."""
        found = await self.metadata()
        anew = {"prompt": "login", "max_age": "0"} if secrets.again else {}
        return str(
            prepare_grant_uri(
                found.authorization_endpoint,
                client_id=self._settings.client_id,
                response_type="code",
                redirect_uri=redirect,
                scope=" ".join(dict.fromkeys(["openid", *self._settings.scopes])),
                state=secrets.state,
                nonce=secrets.nonce,
                code_challenge=create_s256_code_challenge(secrets.verifier),
                code_challenge_method="S256",
                **anew,
            )
        )

    def logout_address(self, back: str) -> str | None:
        """Where a browser goes to log out at the provider, too; None where that is not known."""
        if self._metadata is None or not self._metadata.end_session_endpoint:
            return None
        place = self._metadata.end_session_endpoint
        query = urlencode({"client_id": self._settings.client_id, "post_logout_redirect_uri": back})
        return f"{place}{'&' if '?' in place else '?'}{query}"

    async def claims(self, code: str, secrets: LoginSecrets, redirect: str) -> dict[str, Any]:
        """What the provider says of whoever logged in. Raises ProviderFailed."""
        found = await self.metadata()
        answer = await self._exchanged(found, code, secrets, redirect)
        token, access = answer.get("id_token"), answer.get("access_token")
        if not isinstance(token, str) or not isinstance(access, str):
            raise self._untrusted("the answer to the code has no ID token")
        claims = await self._verified(found, token, access, secrets.nonce)
        if not self._settings.userinfo:
            return claims
        more = await self._ask("GET", found.userinfo_endpoint, {"Authorization": f"Bearer {access}"})
        if more.get("sub") != claims["sub"]:
            raise self._untrusted("the userinfo is of somebody else")
        return {**more, **claims}

    async def _discovered(self) -> ProviderMetadata:
        data = await self._ask("GET", f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        try:
            found = msgspec.convert(data, ProviderMetadata)
        except msgspec.ValidationError as error:
            raise self._untrusted(f"its description cannot be used: {error}") from None
        if found.issuer != self._settings.issuer:
            raise self._untrusted(f"it calls itself {found.issuer!r:.200}, not {self._settings.issuer!r}")
        if unsafe := [each for each in found.endpoints if not is_safe_url(each)]:
            raise self._untrusted(f"{unsafe[0]!r:.200} is no https address")
        if self._settings.userinfo and not found.userinfo_endpoint:
            raise self._untrusted("it has no userinfo endpoint")
        return found

    async def _exchanged(
        self, found: ProviderMetadata, code: str, secrets: LoginSecrets, redirect: str
    ) -> Mapping[str, Any]:
        body = prepare_token_request(
            "authorization_code", code=code, redirect_uri=redirect, code_verifier=secrets.verifier
        )
        secret = await self._secret()
        methods = found.token_endpoint_auth_methods_supported
        way = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        auth = ClientAuth(self._settings.client_id, secret, "none" if secret is None else way)
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        address, headers, body = auth.prepare("POST", found.token_endpoint, headers, body)
        return await self._ask("POST", address, headers, body)

    async def _secret(self) -> str | None:
        """Our secret, as of now. Its name is nothing for those who are not logged in."""
        if self._settings.client_secret is None:
            return None
        try:
            return await self._secret_of(self._settings.client_secret)
        except SecretMissing as error:
            raise self._untrusted(str(error)) from None

    async def _verified(self, found: ProviderMetadata, token: str, access: str, nonce: str) -> dict[str, Any]:
        await self._fetch_keys(found, KEPT_SECONDS)
        try:
            try:
                signed = _signed_by(self._keys, token)
            except InvalidKeyIdError:  # the provider has a new key
                await self._fetch_keys(found, AGAIN_SECONDS)
                signed = _signed_by(self._keys, token)
            options: dict[str, Any] = {
                "iss": {"essential": True, "value": self._settings.issuer},
                "aud": {"essential": True, "value": self._settings.client_id},
                "sub": {"essential": True},
            }
            params = {"nonce": nonce, "client_id": self._settings.client_id, "access_token": access}
            claims = CodeIDToken(signed.claims, signed.header, options, params)
            claims.validate(now=int(self._clock()), leeway=self._settings.leeway_seconds)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._untrusted(f"its ID token is not good: {error!r:.200}") from None
        return dict(signed.claims)

    async def _fetch_keys(self, found: ProviderMetadata, kept_seconds: float) -> None:
        """Fetch the provider's keys, unless that was done less than so many seconds ago."""
        async with self._lock:
            if self._clock() - self._keys_at >= kept_seconds:
                self._keys = _keys_in(await self._ask("GET", found.jwks_uri))
                self._keys_at = self._clock()

    async def _ask(
        self, method: str, address: str, headers: Mapping[str, str] | None = None, body: str | None = None
    ) -> dict[str, Any]:
        """The object that the provider answers. Raises ProviderFailed."""
        try:
            async with (
                asyncio.timeout(self._answer_seconds),
                httpx.AsyncClient(timeout=self._answer_seconds, verify=self._certificates) as client,
                client.stream(method, address, headers=headers, content=body) as response,
            ):
                parts, size = [], 0
                async for part in response.aiter_bytes():
                    parts.append(part)
                    if (size := size + len(part)) > LARGEST:
                        raise self._untrusted(f"its answer is larger than {LARGEST} bytes")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            log.warning("OpenID Connect: %s of %s failed: %r", method, address, error)
            raise ProviderFailed("the provider of identities does not answer: try again.") from None
        return self._read(response.status_code, b"".join(parts))

    def _read(self, status: int, data: bytes) -> dict[str, Any]:
        try:
            found = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            found = None
        if isinstance(found, dict) and status == 200:
            return found
        code = found.get("error") if isinstance(found, dict) else None
        raise self._untrusted(f"it answered {status}{describe_error(code)}")

    def _untrusted(self, why: str) -> ProviderFailed:
        log.warning("OpenID Connect: %s: %s", self._settings.issuer, why)
        return ProviderFailed("this login cannot be trusted: try again; if it stays so, the server's log says why.")


def describe_error(code: object) -> str:
    """The provider's code of an error, where it is one: it is shown to people, and anybody can make an address up."""
    return f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""


def _signed_by(keys: KeySet, token: str) -> jwt.Token:
    registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    registry.max_header_length = LONGEST_HEADER
    return jwt.decode(token, keys, registry=registry)


def _keys_in(data: Mapping[str, Any]) -> KeySet:
    """The public keys for signatures. Those of a kind that is not known here are left out."""
    found = []
    listed = data.get("keys")
    for each in listed if isinstance(listed, list) else ():
        if not isinstance(each, dict) or each.get("kty") not in ("RSA", "EC", "OKP") or each.get("use", "sig") != "sig":
            continue
        try:
            found.append(JWKRegistry.import_key(each))
        except (JoseError, ValueError, TypeError, KeyError):
            log.info("OpenID Connect: a key of the provider cannot be read, and is left out")
    return KeySet(found)
