"""Trees of runs, judged by a world outside the engine and by what people are advised to do.

``world`` is the outside: it notes what was done and undone, and when. ``plant`` has the workflows that play any
program, ``grow`` the programs of a seed. ``life`` lets them happen on engines that die, and then has
their advice followed; ``laws`` says what must hold at rest.
"""
