"""Wake-ups: hints between processes that share a store, beside the hints of the store itself.

``driver`` has the protocol, ``redis`` its first implementation, ``urls`` finds one by its URL, ``exchange`` sends and
hears through it, and ``probe`` tries one. A hint says that something may have changed, and nothing else: no id, no
tenant, no data. A hint that is lost, late or doubled changes nothing but latency. Nothing here knows a store.
"""

from holdfast.wakeups.driver import Wakeups

__all__ = ["Wakeups"]
