"""Which hosts and addresses are called, by a request and by a redirect."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from holdfast.errors import AddressRefused, RequestRefused, TransportFailed
from holdfast.transports import hosts, table
from tests.unit.transports.calling import attempt, call
from tests.unit.transports.server import Reply, Request, Server, data, echo

PRIVATE = [
    "127.0.0.1",
    "127.8.8.8",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::1",
]


BLOCKS = [
    # the address before the block, its first, its last, and the one after it; None where a neighbour is private, too
    (None, "0.0.0.0", "0.255.255.255", "1.0.0.0"),
    ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
    ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
    ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
    ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
    ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
    ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
    ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
    ("192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"),
    ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
    ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
    ("198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"),
    ("203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"),
    ("223.255.255.255", "224.0.0.0", "239.255.255.255", None),
    (None, "240.0.0.0", "255.255.255.255", None),
    # of IPv6, what is below the addresses that are given out, and between the blocks in it
    (None, "::", "::ffff:ffff", None),  # unspecified, loopback, and IPv4-compatible
    (None, "::fffe:ffff:ffff", "::ffff:0.255.255.255", "::ffff:1.0.0.0"),  # IPv4-mapped, as its address of IPv4
    ("::ffff:9.255.255.255", "::ffff:10.0.0.0", "::ffff:10.255.255.255", "::ffff:11.0.0.0"),
    ("::ffff:126.255.255.255", "::ffff:127.0.0.0", "::ffff:127.255.255.255", "::ffff:128.0.0.0"),
    ("::ffff:223.255.255.255", "::ffff:224.0.0.0", "::ffff:255.255.255.255", None),
    (None, "::1:0:0:0", "::1:0:ffff:ffff", None),
    (None, "::ffff:0:0:0", "::ffff:0:ffff:ffff", None),  # IPv4-translated
    (None, "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", "64:ff9b::0.255.255.255", "64:ff9b::1.0.0.0"),  # NAT64, likewise
    ("64:ff9b::9.255.255.255", "64:ff9b::10.0.0.0", "64:ff9b::10.255.255.255", "64:ff9b::11.0.0.0"),
    ("64:ff9b::169.253.255.255", "64:ff9b::169.254.0.0", "64:ff9b::169.254.255.255", "64:ff9b::169.255.0.0"),
    ("64:ff9b::223.255.255.255", "64:ff9b::224.0.0.0", "64:ff9b::255.255.255.255", None),
    (None, "64:ff9b::1:0:0", "64:ff9b:0:ffff:ffff:ffff:ffff:ffff", None),
    (None, "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", None),  # NAT64 of one network
    (None, "100::", "100::ffff:ffff:ffff:ffff", None),  # thrown away
    (None, "100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff", None),
    (None, "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"),
    ("2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"),
    ("2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"),
    ("3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
    ("3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),
    (None, "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),  # segment routing
    (None, "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),  # unique local
    (None, "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),  # link-local
    (None, "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),  # site-local
    (None, "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),  # multicast
]

HIDDEN = [
    "::127.0.0.1",
    "::10.0.0.1",
    "::8.8.8.8",
    "::ffff:0:127.0.0.1",
    "::ffff:0:10.0.0.1",
    "::ffff:0:8.8.8.8",
    "64:ff9b:1::127.0.0.1",
    "64:ff9b:1:ffff::10.0.0.1",
    "64:ff9b:1::8.8.8.8",
    "fec0::1",
    "2002:7f00:1::1",
    "2002:808:808::1",
    "2001:0:7f00:1:0:0:80ff:fffe",  # Teredo, of a server and a client at loopback
    "2001:0:808:808::f7f7:f7f7",
    "fd00:ec2::254",
]


@pytest.mark.parametrize("address", [*PRIVATE, *HIDDEN])
def test_an_address_inside_is_private(address: str) -> None:
    """Also where it is written inside another."""
    assert not hosts.is_public_address(address)


@pytest.mark.parametrize(("before", "first", "last", "after"), BLOCKS)
def test_a_special_block_ends_where_its_registry_says(
    before: str | None, first: str, last: str, after: str | None
) -> None:
    """The same on every version of Python: its first and last address are private, those beside it are public."""
    assert not hosts.is_public_address(first)
    assert not hosts.is_public_address(last)
    assert all(hosts.is_public_address(each) for each in (before, after) if each is not None)


@pytest.mark.parametrize(
    "address",
    [
        "93.184.216.34",
        "8.8.8.8",
        "2606:2800:220:1:248:1893:25c8:1946",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2001:4860:4860::8888",
        "2a00:1450:4001:81b::200e",
    ],
)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert hosts.is_public_address(address)


@pytest.mark.parametrize(
    ("setting", "host", "address", "may"),
    [
        ("", "a.example", "10.0.0.1", False),
        ("", "a.example", "8.8.8.8", True),
        ("a.example", "a.example", "10.0.0.1", True),
        ("a.example", "b.example", "10.0.0.1", False),
        ("*.internal, 10.0.0.0/8", "x.internal", "192.168.0.1", True),
        ("*.internal, 10.0.0.0/8", "b.example", "10.9.9.9", True),
        ("*.internal 10.0.0.0/8", "b.example", "::ffff:10.9.9.9", True),
        ("10.0.0.0/8", "b.example", "192.168.0.1", False),
        ("fc00::/7", "b.example", "fc00::1", True),
        ("10.0.0.0/8", "b.example", "64:ff9b::10.9.9.9", True),
        ("10.0.0.0/8", "b.example", "::10.9.9.9", False),
        ("10.0.0.0/8", "b.example", "2002:a09:909::1", False),
        ("64:ff9b:1::/48", "b.example", "64:ff9b:1::10.9.9.9", True),
        ("*", "b.example", "127.0.0.1", True),
    ],
)
def test_a_private_address_is_called_where_the_operator_lists_it(
    monkeypatch: pytest.MonkeyPatch, setting: str, host: str, address: str, may: bool
) -> None:
    """By the host's name or by its network."""
    monkeypatch.setenv("HOLDFAST_PRIVATE_HOSTS", setting)
    assert hosts.may_reach(host, address) is may


def refused(request: dict[str, Any], said: str) -> AddressRefused:
    with pytest.raises(AddressRefused, match=said) as raised:
        call(request)
    return raised.value


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "127.1", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[fec0::1]"],
)
def test_no_private_address_is_called_unless_the_operator_lists_it(
    server: Server, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """However it is written: what counts is the address that would be connected to."""
    monkeypatch.delenv("HOLDFAST_PRIVATE_HOSTS")
    error = refused({"get": f"http://{host}:{server.port}/"}, "HOLDFAST_PRIVATE_HOSTS")
    assert not error.retryable
    assert not server.seen


def test_a_host_that_the_operator_does_not_list_is_not_called(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a definition says."""
    monkeypatch.setenv("HOLDFAST_HTTP_HOSTS", "*.example, api.other")
    refused({"get": f"{server.url}/"}, "HOLDFAST_HTTP_HOSTS")
    assert not server.seen
    monkeypatch.setenv("HOLDFAST_HTTP_HOSTS", "127.0.0.*")
    assert call({"get": f"{server.url}/"})["path"] == "/"


def test_a_name_is_resolved_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that changes between the look and the connection leads nowhere else: the address that was looked at is the
    one that is connected to."""
    asked: list[str] = []

    class Resolver(asyncio.SelectorEventLoop):
        async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:  # type: ignore[override]
            name = host.decode() if isinstance(host, bytes) else host
            if name != "rebinding.example":
                return await super().getaddrinfo(host, port, **options)
            asked.append(name)
            address = "192.0.2.7" if len(asked) == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setenv("HOLDFAST_PRIVATE_HOSTS", "192.0.2.0/24")
    with pytest.raises(TransportFailed):
        call({"get": f"http://rebinding.example:{server.port}/", "timeout": 0.3}, loop=Resolver)
    assert asked == ["rebinding.example"]
    assert not server.seen


def test_a_host_that_has_several_addresses_is_reached_by_the_one_that_answers(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that refuses, and one that must not be called, are passed over."""

    class Resolver(asyncio.SelectorEventLoop):
        async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:  # type: ignore[override]
            addresses = ["10.0.0.1", "127.0.0.2", "127.0.0.1"]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setenv("HOLDFAST_PRIVATE_HOSTS", "127.0.0.0/8")
    assert call({"get": f"http://several.example:{server.port}/x"}, loop=Resolver)["path"] == "/x"


# -- redirects ---------------------------------------------------------------------------------------------------------


def moved(to: str, status: int = 302) -> Any:
    """A server whose first page leads elsewhere."""
    return lambda request: Reply(status, b"", {"Location": to}) if request.path == "/from" else echo(request)


def test_a_redirect_is_followed_only_where_the_call_says_so(server: Server) -> None:
    """Else it is an answer that was not wanted."""
    server.behaviour = moved("/to?x=1")
    with pytest.raises(RequestRefused, match="302"):
        call({"get": f"{server.url}/from"})
    assert call({"get": f"{server.url}/from", "redirect": True})["path"] == "/to?x=1"


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [(301, "post", "GET"), (302, "post", "GET"), (303, "put", "GET"), (307, "post", "POST"), (308, "put", "PUT")],
)
def test_a_redirect_keeps_or_changes_the_method(server: Server, status: int, method: str, then: str) -> None:
    """As browsers do; what is not sent again has no body."""
    server.behaviour = moved("/to", status)
    call({method: f"{server.url}/from", "json": {"a": 1}, "redirect": True})
    last = server.seen[-1]
    assert (last.method, last.body) == (then, b'{"a":1}' if then != "GET" else b"")


@pytest.mark.parametrize("redirect", [True, ["127.0.0.1"], ["*"]])
def test_no_redirect_leads_to_a_private_address(server: Server, other: Server, redirect: Any) -> None:
    """Even to one that a request may name, and over a connection that another request has opened."""
    server.behaviour = moved(f"{other.url}/secret")
    call({"get": f"{other.url}/"})
    refused({"get": f"{server.url}/from", "redirect": redirect}, "no redirect may lead to a private address")
    assert [request.path for request in other.seen] == ["/"]


def test_a_redirect_finds_no_connection_of_a_named_request(server: Server, other: Server) -> None:
    """Both in one event loop: the pools are apart."""
    server.behaviour = moved(f"{other.url}/secret")

    async def main() -> None:
        await attempt({"get": f"{other.url}/"})
        with pytest.raises(AddressRefused):
            await attempt({"get": f"{server.url}/from", "redirect": True})
        transport = table.find("http")
        assert transport is not None
        await transport.close()

    asyncio.run(main())
    assert [request.path for request in other.seen] == ["/"]


@pytest.mark.parametrize("to", ["http://elsewhere.example/", "//elsewhere.example/x"])
def test_a_redirect_to_another_host_must_be_listed(server: Server, to: str) -> None:
    """The gate has judged the host that was named, and no other."""
    server.behaviour = moved(to)
    refused({"get": f"{server.url}/from", "redirect": True}, "elsewhere.example")


@pytest.mark.parametrize("to", ["file:///etc/passwd", "http://", "http://u:p@127.0.0.1/", "http://[::1"])
def test_a_redirect_to_what_is_no_address_is_refused(server: Server, to: str) -> None:
    """Whatever a server says."""
    server.behaviour = moved(to)
    with pytest.raises(AddressRefused):
        call({"get": f"{server.url}/from", "redirect": True})


def test_redirects_end(server: Server) -> None:
    """A circle is no way."""
    server.behaviour = lambda _: Reply(302, b"", {"Location": "/from"})
    refused({"get": f"{server.url}/from", "redirect": True}, "more than 5")
    assert len(server.seen) == 6


def test_a_write_that_led_elsewhere_may_have_been_done(server: Server) -> None:
    """Where the page behind it fails, nobody knows more than that."""

    def behave(request: Request) -> Reply:
        return Reply(303, b"", {"Location": "/to"}) if request.method == "POST" else data({}, 404)

    server.behaviour = behave
    with pytest.raises(TransportFailed) as raised:
        call({"post": f"{server.url}/from", "redirect": True})
    assert raised.value.is_unknown


@pytest.mark.parametrize(("status", "is_open"), [(303, True), (307, False)])
def test_a_write_that_led_to_a_refused_address_may_have_been_done(
    server: Server, other: Server, status: int, is_open: bool
) -> None:
    """307 says that nothing was done yet: the request is to be sent elsewhere."""
    server.behaviour = moved(f"{other.url}/to", status)
    error = refused({"post": f"{server.url}/from", "redirect": True}, "private")
    assert error.is_unknown is is_open
    assert error.members["url"] == f"{server.url}/from"
