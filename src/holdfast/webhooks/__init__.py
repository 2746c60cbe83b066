"""Webhooks: signed messages of others that start or signal something here, and what others are told, signed, of what
happens here. Structs, signatures and decisions live here; nothing here sends or waits.
"""

from holdfast.webhooks.webhook import EmitEvent, SignalRun, StartTemplate

__all__ = ["EmitEvent", "SignalRun", "StartTemplate"]
