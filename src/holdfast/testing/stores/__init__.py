"""The suite that judges a store: every law of ``holdfast.store.protocol``, and every operation.

Give it a way to make an empty store, and let pytest find the class::

    import contextlib

    from holdfast.testing.stores import StoreSuite


    class TestMyStore(StoreSuite):
        @contextlib.asynccontextmanager
        async def fresh(self):
            store = MyStore(...)
            await store.open()
            try:
                yield store
            finally:
                await store.close()

Each test takes one store from ``fresh``, inside its own event loop, and gives it back. What the store needs
beyond that (a folder, a server) may come from pytest fixtures that the class sets on itself. For readable failures, put
``pytest.register_assert_rewrite("holdfast.testing.stores")`` into ``conftest.py``.
"""

from holdfast.testing.stores.suite import StoreSuite

__all__ = ["StoreSuite"]
