"""How a worker is known to the store, and knows that it still is."""
