"""``link``: the address of a server that was started with ``--no-auth``, with its key."""

from __future__ import annotations

import click

from holdfast.cli import options, output, session
from holdfast.cli.server.extra import check_extra


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8420, show_default=True, help="The server's port.")
@click.option("--key", "only_key", is_flag=True, help="Print the key alone, as `Authorization: Bearer …` takes it.")
@options.store_url
@options.as_json
def link(port: int, only_key: bool, store: str | None, as_json: bool) -> None:
    """Print the link to a server that `holdfast serve --no-auth` started with this store on this port.

    A browser on this host that opens it acts as the operator. The key is kept in a file that only you may read.
    """
    check_extra("the link")
    from holdfast.server.operator import link_to
    from holdfast.server.operator_key import found_key, key_file

    url = session.url_of(store)
    key = found_key(url, port)
    address = link_to(f"http://127.0.0.1:{port}/", key)
    if as_json:
        output.emit({"link": address, "key": key, "key_file": str(key_file(url, port))})
    else:
        click.echo(key if only_key else address)
