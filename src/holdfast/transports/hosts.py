"""Which hosts and addresses may be called: what the operator says in the environment of a worker.

- ``HOLDFAST_HTTP_HOSTS``: patterns of host names. Where it is set, no other host is called, whatever a definition says.
- ``HOLDFAST_PRIVATE_HOSTS``: patterns of host names, or networks such as ``10.0.0.0/8``, that may be called although
  their address is a private one. Without it only public addresses are called: a host may come from a run's input.

Patterns are separated by commas or blanks; ``*`` stands for everything.
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

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


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
    """Whether the address, and any that it stands for, is one of the public internet."""
    return all(each.is_global and not each.is_multicast for each in _meant(address))


def _meant(address: Address) -> Iterator[Address]:
    """The address, and the older one that is written inside it."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            yield address.ipv4_mapped
        if address.sixtofour is not None:
            yield address.sixtofour
        if address.teredo is not None:
            yield address.teredo[1]
        if address in _NAT64:
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _read(address: str) -> Address:
    return ipaddress.ip_address(address.partition("%")[0])


def _patterns(given: str) -> Iterator[str]:
    return (pattern.lower() for pattern in re.split(r"[\s,]+", given) if pattern)


def _is_in(address: Address, network: str) -> bool:
    try:
        return any(each in ipaddress.ip_network(network, strict=False) for each in _meant(address))
    except ValueError:  # it is a pattern of names
        return False
