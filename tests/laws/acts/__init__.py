"""Acts, undos and reversals, judged by a ledger outside the engine.

``world`` is the outside: it counts what was really done. ``trade`` is the workflow that plays any program. ``grow`` has
the programs and moods of a seed, ``life`` lets them happen on engines that die, ``laws`` says what must hold at rest.
"""
