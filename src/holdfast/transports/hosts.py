"""Which hosts and addresses may be called: what the operator says in the environment of a worker.

- ``HOLDFAST_HTTP_HOSTS``: patterns of host names. Where it is set, no other host is called, whatever a definition says.
- ``HOLDFAST_PRIVATE_HOSTS``: patterns of host names, or networks such as ``10.0.0.0/8``, that may be called although
  their address is a private one. Without it only public addresses are called: a host may come from a run's input.

Patterns are separated by commas or blanks; ``*`` stands for everything.

Which addresses are public is a table of this module: IANA's registries of special-purpose addresses. ``ipaddress`` has
such a table, too, but it differs between versions of Python.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

HOSTS: Final = "HOLDFAST_HTTP_HOSTS"
PRIVATE_HOSTS: Final = "HOLDFAST_PRIVATE_HOSTS"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that is given out for the internet. The rest is local, multicast, an old way to write an address of IPv4,
or not given out."""

_CARRIERS: Final = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96"))
"""Addresses that stand for the one of IPv4 in their last 32 bits: mapped ones, and those of NAT64."""

_SPECIAL: Final = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # between a provider and its customers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, with the metadata of clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocols
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "2001::/23",  # protocols, with Teredo: an address of IPv4 is hidden in it
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an address of IPv4 is hidden in it
        "3fff::/20",  # documentation
    )
)
"""Blocks that are not the public internet, of IPv4 and within ``_UNICAST``."""


def may_call(host: str) -> bool:
    """Whether the operator lets this host be called at all."""
    given = os.environ.get(HOSTS, "")
    return not given.strip() or any(fnmatchcase(host, pattern) for pattern in _patterns(given))


def may_reach(host: str, address: str) -> bool:
    """Whether the address that a named host has may be connected to."""
    found = _read(address)
    if is_public(found):
        return True
    given = list(_patterns(os.environ.get(PRIVATE_HOSTS, "")))
    return any(fnmatchcase(host, pattern) or _is_in(found, pattern) for pattern in given)


def is_public_address(address: str) -> bool:
    """Whether this is an address of the public internet, by which no redirect leads to something inside."""
    return is_public(_read(address))


def is_public(address: Address) -> bool:
    """Whether the address, or the one that it stands for, is one of the public internet."""
    meant = _meant(address)[-1]
    if meant.version == 6 and meant not in _UNICAST:
        return False
    return not any(meant in block for block in _SPECIAL)


def _meant(address: Address) -> tuple[Address, ...]:
    """The address, and the one of IPv4 that it stands for."""
    if any(address in carrier for carrier in _CARRIERS):
        return address, ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return (address,)


def _read(address: str) -> Address:
    return ipaddress.ip_address(address.partition("%")[0])


def _patterns(given: str) -> Iterator[str]:
    return (pattern.lower() for pattern in re.split(r"[\s,]+", given) if pattern)


def _is_in(address: Address, network: str) -> bool:
    try:
        return any(each in ipaddress.ip_network(network, strict=False) for each in _meant(address))
    except ValueError:  # it is a pattern of names
        return False
