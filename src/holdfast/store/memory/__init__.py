"""The store in memory: the reference model that tests and the simulator use. Nothing survives the process."""

from holdfast.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
