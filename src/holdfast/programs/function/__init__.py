"""Functions: plain ``async def`` Python, made durable by a deterministic event loop."""
