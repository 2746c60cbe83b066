"""Logging in with OpenID Connect: the settings, the provider, what its claims mean here, and the two routes of a login.

``provider`` alone knows the protocol's library. ``mapping`` is pure. Whom a login is for is decided by ``mapping``, and
what becomes of it in the store by ``client/people/identities``.
"""
