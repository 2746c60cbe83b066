"""Tools for tests of your workflows, of stores and of wake-ups.

- ``virtual_engine`` (``engine``) inside ``run_virtually`` (``virtual``): the real engine on virtual time and in memory.
  Days of sleeping pass in milliseconds, and nothing is mocked. ``VirtualClock`` shows the virtual time; ``Stuck`` is
  raised where every task waits for ever.
- ``machine_engine`` (``machines``): the same with machines: send events, let time pass, look at cells.
- ``fixtures``: the pytest plugin with the fixtures ``holdfast_app`` and ``holdfast_loop``. pytest finds it by itself.
- ``stores``: the suite that judges every store.
- ``wakeups``: the suite that judges every driver of wake-ups.
- ``postgres`` and ``redis``: real servers for tests.

Nothing in ``holdfast`` but the tests themselves may import from here.
"""

from holdfast.testing.engine import virtual_engine
from holdfast.testing.machines import MachineEngine, machine_engine
from holdfast.testing.virtual import Stuck, VirtualClock, VirtualLoop, run_virtually

__all__ = [
    "MachineEngine",
    "Stuck",
    "VirtualClock",
    "VirtualLoop",
    "machine_engine",
    "run_virtually",
    "virtual_engine",
]
