"""Random definitions, judged by a plain reference interpreter that was written from the rules of the format alone.

A seed is a case (``grow``): a definition in the words of the format, definitions that it runs, signals and their times,
perhaps a cancellation. How long every call takes and what comes of it is decided by the call alone (``outside``), so
that both sides have the same timing. ``reference`` plays a case with asyncio on a virtual clock: recursion, tasks,
cancellation; no journal and no checkpoints. ``world`` plays it with the engine's interpreter in the kernel. The laws
(``judge``):

D1  Both end alike: completed with the same result, failed with the same class and code, cancelled, or parked.
D2  Both leave the same business state and reference.
D3  Both make the same attempts of the same calls, tasks, children and messages, at the same times; so the order in each
    branch is the same, too. Undos are such calls.
D4  At every turn, a run that is rebuilt from its journal, or restored from its last checkpoint and what came after it,
    has the same checkpoint as the live one, byte for byte, and goes on in its place.
D5  On whole engines (``whole``) D1 to D3 hold, too, and so does the time of every call: workers die before and after
    their commits, checkpoints are written at every turn, lost and damaged.
D6  What an engine shows of a run is what the whole journal of the run says.
D7  A cancellation ends a run that is parked, and a child that is, too: what it did is undone, once.

``python -m tests.laws.definitions SEED COUNT`` judges many seeds; ``make definitions SEED=7`` plays one again.
"""
