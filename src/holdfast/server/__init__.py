"""The HTTP server: one table of routes, from which decoding, permission, answers, documentation and tests follow.

``routes/`` has a module for each subject, each with a tuple of routes. A handler gets a ``RouteCall``, whose client is
bound to whoever sent the request, and gives a view. It holds no logic that a client would need.
"""

from holdfast.server.authentication import Authenticator, BearerTokens, TrustedHeader
from holdfast.server.call import Acting
from holdfast.server.console.cookies import SessionCookies
from holdfast.server.openid.settings import GroupsClaim, LevelClaim, OpenIdSettings, TenantClaim
from holdfast.server.operator import Operator
from holdfast.server.operator_key import kept_key
from holdfast.server.server import Server
from holdfast.server.settings import ServerSettings

__all__ = [
    "Acting",
    "Authenticator",
    "BearerTokens",
    "GroupsClaim",
    "LevelClaim",
    "OpenIdSettings",
    "Operator",
    "Server",
    "ServerSettings",
    "SessionCookies",
    "TenantClaim",
    "TrustedHeader",
    "kept_key",
]
