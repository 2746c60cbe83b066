"""Make some runs of the office, and serve them with the console. ``make serve``.

The store is in a temporary folder. There is no log in: the link that is printed makes you the operator.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from office import Invoice, Seen, engine, order, parcel, pay_invoice, raise_limit  # noqa: E402

from holdfast import Holdfast  # noqa: E402
from holdfast.webhooks import SignalRun  # noqa: E402

YOU = "you"


async def seed(app: Holdfast) -> None:
    """Runs that wait for people, for signals and for time; that have ended, failed and are parked."""
    paid = Invoice("R-1001", "Nordlicht Papier", 240.0)
    runs = [
        await app.start(pay_invoice.bind(paid), id="invoice-1001", actor="ann", attributes={"team": "purchasing"}),
        await app.start("claims.settle", claim("C-17", 120.0), id="claim-17", actor="cleo"),
        await app.start("claims.settle", claim("C-18", 8400.0), id="claim-18", actor="cleo"),
        await app.start(order.bind("a lamp"), id="order-501", actor="ann", attributes={"tier": "gold"}),
        await app.start(order.bind("a kite"), id="order-502", actor="ann", attributes={"tier": "basic"}),
        await app.start(order.bind("a table"), id="order-503", actor="ben", attributes={"tier": "gold"}),
    ]
    await app.run("claim-17").signal("documents", ["photo"], key="C-17")
    await app.run("claim-18").signal("documents", ["photo", "report"], key="C-18")
    await app.run("order-501").signal("packed", "mia", by="mia")
    await app.run("order-502").signal("packed", "mia", by="mia")
    large = Invoice("R-1002", "Falk Maschinenbau", 18_400.0)
    huge = Invoice("R-1003", "Werft Nord", 76_000.0)
    small = Invoice("R-1004", "Bäckerei Lind", 36.5)
    runs += [
        await app.start(pay_invoice.bind(large), id="invoice-1002", actor="ann", attributes={"team": "purchasing"}),
        await app.start(pay_invoice.bind(huge), id="invoice-1003", actor="ben", attributes={"team": "dock"}),
        await app.start(pay_invoice.bind(small, account="4711"), id="invoice-1004", actor="ben"),
        await app.start(raise_limit.bind("Falk Maschinenbau", 20_000), id="limit-falk", actor="ann"),
    ]
    await app.run("renewal-halden").signal("accepted", value=True)
    for number, place in (("P-7", "the depot"), ("P-8", "the depot"), ("P-7", "the door"), ("P-8", "")):
        sent = await app.emit(Seen(number, place), by="scanner 3")
        await app.cell(parcel, number).state(after=sent.places[0])
    for run in runs:
        await run.settled(timeout=30)


def claim(number: str, amount: float) -> dict[str, object]:
    """A claim as the definition takes it."""
    return {"claimNo": number, "filedBy": "ann", "items": [{"what": "a window", "amount": amount}]}


def second_version() -> str:
    """The definition of claims with a higher limit: the runs of the first version can be moved to it."""
    text = (HERE.parent / "claims" / "claims.yaml").read_text()
    return text.replace("version: 1", "version: 2", 1).replace("state.total > 1000.0", "state.total > 2000.0")


async def prepare(url: str) -> None:
    """Fill an empty store."""
    logging.getLogger("holdfast").setLevel(logging.ERROR)  # that a run parks is part of the picture
    yesterday = [sys.executable, str(HERE / "yesterday.py"), url]
    # Our own file. It hears no Ctrl-C, and ends by itself.
    await asyncio.to_thread(subprocess.run, yesterday, check=True, start_new_session=True)
    async with engine(url) as app:
        await app.definitions.publish_all([(HERE.parent / "claims" / "claims.yaml").read_text()], by="cleo")
        await app.tenants.create("default", by="cleo")
        await app.users.create(YOU, level=6, groups=["claims"], tenant="default", by="cleo")
        await seed(app)
        await app.schedules.create(
            "tidy-up", order.bind("a broom"), cron="0 6 * * 1-5", timezone="Europe/Berlin", by=YOU
        )
        await app.schedules.run_now("tidy-up", by=YOU, reason="to have one to look at")
        await app.definitions.publish_all([second_version()], by="cleo")
        await app.templates.create("claims", "claims.settle", name="Settle a claim", by=YOU)
        await app.templates.activate("claims", by=YOU)
        await app.webhooks.create("orders", SignalRun("=payload.order", "packed", "=payload.by"), user=YOU, by=YOU)
        # Nobody is there: names that end in .invalid lead nowhere. So a delivery waits for its next try.
        await app.subscriptions.create("ops", "https://ops.example.invalid/holdfast", ["run.parked"], by=YOU)
        await app.subscriptions.ping("ops", by=YOU)


def free_port() -> int:
    """The port that is asked for. Says what to do where it is none, or taken, before anything is made."""
    text = os.environ.get("PORT") or "8420"
    if not text.isdecimal() or int(text) > 65535:
        sys.exit(f"PORT is a number up to 65535, not {text!r}: run `PORT=8421 make serve`.")
    try:
        with socket.create_server(("127.0.0.1", int(text))):
            return int(text)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        why = "another process listens there. Stop it" if is_taken else f"{error.strerror}. Choose another"
        sys.exit(f"Port {text} cannot be used: {why}, or run `PORT=8421 make serve`.")


def main() -> int:
    """Fill a store, then become ``holdfast serve``."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'office.db'}"
        print("Making some runs to look at …", flush=True)
        asyncio.run(prepare(url))
        print("A payment waits for your approval: see Tasks. Ctrl-C ends it, and nothing is kept.", flush=True)
        command = [sys.executable, "-m", "holdfast", "serve", str(HERE / "office.py"), "--store", url]
        options = ["--no-auth", "--port", str(port), "--as", YOU]
        environment = {**os.environ, "XDG_STATE_HOME": folder}  # the key of the link ends with the store
        with subprocess.Popen([*command, *options], env=environment) as server:  # our own command
            # Ctrl-C reaches the server as well; what stops this process alone is passed on.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, lambda *_: server.terminate())
            return server.wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
