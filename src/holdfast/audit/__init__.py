"""The audit: its records, the chain that seals them, the keys that sign it, and evidence of single runs.

``check`` finds what does not fit. Nothing here acts on the outside world.
"""
