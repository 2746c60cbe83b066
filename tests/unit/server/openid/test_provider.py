"""What a provider says is believed only where it is signed, for us, for now, and for this login."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from holdfast.errors import ProviderFailed
from holdfast.server.openid import provider as module
from holdfast.server.openid.provider import LoginSecrets, Provider
from tests.provider import CLIENT, SECRET, LocalProvider, providing, query_of
from tests.serving import person

LOGIN = LoginSecrets("the state", "the nonce", "the verifier, which is long enough for the protocol")
BACK = "http://127.0.0.1:1/login/oidc/callback"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_OIDC", SECRET)


async def logged_in(provider: Provider, local: LocalProvider, login: LoginSecrets = LOGIN) -> dict[str, Any]:
    """The claims of one login."""
    async with person(local.issuer, None) as browser:
        answer = await browser.get(await provider.login_address(login, BACK))
    return await provider.claims(query_of(answer.headers["location"])["code"], login, BACK)


def written(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None = None) -> str:
    """A token without a library that would refuse to write it: with a MAC, or with no signature at all."""
    parts = [json.dumps(part).encode() for part in (header, claims)]
    text = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = b"" if secret is None else hmac.digest(secret, text, "sha256")
    return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def signed_with(key: Any, algorithm: str, **header: Any) -> Callable[[dict[str, Any]], str]:
    def sign(claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": algorithm, **header}, claims, key, algorithms=[algorithm])

    return sign


def test_a_token_that_is_not_for_this_login_is_refused() -> None:
    """Each claim that the protocol names is checked, with 60 seconds between the clocks."""
    now = int(time.time())
    bad: dict[str, Callable[[dict[str, Any]], Any]] = {
        "another nonce": lambda claims: claims.update(nonce="other"),
        "no nonce": lambda claims: claims.pop("nonce"),
        "another issuer": lambda claims: claims.update(iss="https://evil.example"),
        "no issuer": lambda claims: claims.pop("iss"),
        "another audience": lambda claims: claims.update(aud="another client"),
        "another audience, by us": lambda claims: claims.update(aud="another client", azp=CLIENT),
        "no audience": lambda claims: claims.pop("aud"),
        "several audiences, for another": lambda claims: claims.update(aud=[CLIENT, "other"], azp="other"),
        "several audiences, for nobody": lambda claims: claims.update(aud=[CLIENT, "other"]),
        "for another": lambda claims: claims.update(azp="other"),
        "expired": lambda claims: claims.update(exp=now - 61),
        "no end": lambda claims: claims.pop("exp"),
        "an end that is no time": lambda claims: claims.update(exp="never"),
        "of the future": lambda claims: claims.update(iat=now + 300),
        "not yet": lambda claims: claims.update(nbf=now + 300),
        "no time": lambda claims: claims.pop("iat"),
        "nobody": lambda claims: claims.pop("sub"),
        "an empty subject": lambda claims: claims.update(sub=""),
        "a subject that is no text": lambda claims: claims.update(sub=7),
        "another access token": lambda claims: claims.update(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    }
    good: dict[str, Callable[[dict[str, Any]], Any]] = {
        "as it must be": lambda claims: None,
        "a clock that is late": lambda claims: claims.update(exp=now - 30, iat=now - 400),
        "a list of one": lambda claims: claims.update(aud=[CLIENT]),
        "several audiences, for us": lambda claims: claims.update(aud=[CLIENT, "other"], azp=CLIENT),
    }

    async def main() -> None:
        async with providing() as local:
            provider = Provider(local.settings())
            for name, twist in good.items():
                local.twist = twist
                assert (await logged_in(provider, local))["sub"] == "account-1", name
            for name, twist in bad.items():
                local.twist = twist
                with pytest.raises(ProviderFailed):
                    print(name, await logged_in(provider, local))

    asyncio.run(main())


def test_a_token_that_the_provider_did_not_sign_is_refused() -> None:
    """Not with another key, not with none, and not with one that everybody knows; nor what is no token."""

    async def main() -> None:
        async with providing() as local:
            provider = Provider(local.settings())
            other = ECKey.generate_key("P-256", {"kid": "first"})
            public = local.key.as_pem(private=False)
            bad: dict[str, Callable[[dict[str, Any]], Any]] = {
                "another key of that name": signed_with(other, "ES256", kid="first"),
                "a key that comes with it": signed_with(other, "ES256", jwk=other.as_dict(private=False)),
                "no signature": lambda claims: written({"alg": "none", "kid": "first"}, claims),
                "the public key as a secret": lambda claims: written({"alg": "HS256", "kid": "first"}, claims, public),
                "our own secret": lambda claims: written({"alg": "HS256"}, claims, SECRET.encode()),
                "an unknown key": signed_with(local.key, "ES256", kid="unknown"),
                "what must be understood": signed_with(local.key, "ES256", kid="first", crit=["x"], x=1),
                "no token": lambda claims: "not a token",
                "three dots": lambda claims: "...",
                "a number": lambda claims: 7,
                "nesting": lambda claims: signed_with(local.key, "ES256", kid="first")({"x": _nested(900)}),
            }
            for name, sign in bad.items():
                local.sign = sign
                with pytest.raises(ProviderFailed):
                    print(name, await logged_in(provider, local))

    asyncio.run(main())


def _nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def test_a_new_key_counts_at_once_and_an_old_one_no_longer() -> None:
    """An unknown key has the keys fetched, at most every few seconds; what is not published any more is over in an
    hour. A key of a kind that is not known is no obstacle."""
    now = [time.time()]

    async def main() -> None:
        async with providing() as local:
            provider = Provider(local.settings(), clock=lambda: now[0])
            await logged_in(provider, local)
            await logged_in(provider, local)
            assert local.seen.count("keys") == 1
            old = local.key
            local.rotate()
            local.published.insert(0, {"kty": "NEW", "kid": "x"})
            with pytest.raises(ProviderFailed):
                await logged_in(provider, local)  # not fetched again so soon
            assert local.seen.count("keys") == 1
            now[0] += module.AGAIN_SECONDS
            assert (await logged_in(provider, local))["sub"] == "account-1"
            assert local.seen.count("keys") == 2
            local.key = old
            now[0] += module.AGAIN_SECONDS
            with pytest.raises(ProviderFailed):
                await logged_in(provider, local)
            assert local.seen.count("describe") == 1
            local.rotate()
            now[0] += module.KEPT_SECONDS + 1
            local.twist = lambda claims: claims.update(exp=int(now[0]) + 300)
            await logged_in(provider, local)
            assert local.seen.count("describe") == 2

    asyncio.run(main())


def test_a_provider_that_describes_itself_wrongly_is_not_used() -> None:
    """Another issuer, addresses without TLS, a part that is missing, or an answer that is too large."""

    async def main() -> None:
        async with providing() as local:
            for described in (
                {"issuer": "https://evil.example"},
                {"issuer": f"{local.issuer}/"},
                {"token_endpoint": "http://id.example/token"},
                {"authorization_endpoint": "javascript:alert(1)"},
                {"end_session_endpoint": "http://id.example/leave"},
                {"jwks_uri": None},
                {"padding": "x" * module.LARGEST},
            ):
                local.described = described
                with pytest.raises(ProviderFailed):
                    await Provider(local.settings()).metadata()

    asyncio.run(main())


def test_a_provider_that_is_slow_is_given_up_on() -> None:
    """One request waits; the others of that moment are refused without another one."""

    async def main() -> None:
        async with providing() as local:
            local.is_silent.set()
            provider = Provider(local.settings(), answer_seconds=0.05)
            results = await asyncio.gather(*(provider.metadata() for _ in range(5)), return_exceptions=True)
            assert [type(each) for each in results] == [ProviderFailed] * 5
            assert local.seen.count("describe") <= 1

    asyncio.run(main())


def test_a_provider_that_failed_is_left_alone_for_a_while_and_asked_again_then() -> None:
    now = [time.time()]

    async def main() -> None:
        async with providing() as local:
            local.described = {"issuer": "https://evil.example"}
            provider = Provider(local.settings(), clock=lambda: now[0])
            for _ in range(3):
                with pytest.raises(ProviderFailed):
                    await provider.metadata()
            assert local.seen.count("describe") == 1
            local.described = {}
            now[0] += module.AGAIN_SECONDS
            assert (await provider.metadata()).issuer == local.issuer

    asyncio.run(main())


def test_claims_of_the_userinfo_are_added_and_cannot_change_who_it_is() -> None:
    """What the token says counts more; the userinfo of somebody else is refused."""

    async def main() -> None:
        async with providing() as local:
            provider = Provider(local.settings(userinfo=True))
            local.userinfo = {"sub": "account-1", "teams": ["t-claims"], "preferred_username": "eve"}
            claims = await logged_in(provider, local)
            assert (claims["teams"], claims["preferred_username"]) == (["t-claims"], "ann")
            local.userinfo = {"sub": "account-2"}
            with pytest.raises(ProviderFailed):
                await logged_in(provider, local)

    asyncio.run(main())


def test_a_wrong_or_missing_secret_lets_nobody_in_and_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says that it is missing, or that the provider refused it; it quotes neither it nor the code."""

    async def main() -> None:
        async with providing() as local:
            for value in ("wrong", None):
                if value is None:
                    monkeypatch.delenv("HOLDFAST_SECRET_OIDC")
                else:
                    monkeypatch.setenv("HOLDFAST_SECRET_OIDC", value)
                with pytest.raises(ProviderFailed) as caught:
                    await logged_in(Provider(local.settings()), local)
                assert "OIDC" not in str(caught.value)

    asyncio.run(main())
    assert "401 (invalid_client)" in caplog.text
    assert "no secret OIDC" in caplog.text
    assert "wrong" not in caplog.text
