"""The audit: its records, the chain that seals them, the keys that sign it, and evidence of single runs.

``check`` finds alterations. Nothing here acts on the outside world.
"""
