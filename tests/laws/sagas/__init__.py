"""Random workflow programs, random schedules, and a judge that knows nothing of the engine.

A program is a tree of data (``tree``) that one workflow function plays (``play``). A schedule settles what the program
waits for, one thing or many in one turn, in any order; it cancels, restarts and retries (``schedule``, over the
``hand``, which does a worker's work one turn at a time). The judge (``judge``) reads the journals, and what the program
itself saw, and says whether these laws hold:

L1  A delivered signal is consumed by a receive that the program saw return, or it stays buffered for the next receive
    of its name, in order; over time-outs, races, cancelled tasks and new generations.
L2  Whatever has a recorded success and an ``undo=`` is undone when the run fails or is cancelled, whether or not a
    task ever got the value.
L3  Once compensation has begun it goes on to its end, through cancellation, a parent's time-out and restarts. Each
    recorded success is undone exactly once, newest first where one came after another; an undo that fails is reported,
    and the rest goes on.
L4  At every end of a run, retried or not: where it has completed, each effect on its last path stands exactly once,
    and no other stands; where it has failed or was cancelled, none stands. A retry may be refused, with the reason,
    where something was undone, or was done after a failure or a cancellation.
L5  Compensations are not forgotten: not by ``continue_as_new``, not where the body ends by ``sys.exit()``, by
    KeyboardInterrupt or by a BaseException of the author's own. A run ends as its body did, and ``continue_as_new``
    works at every place in a body.
L6  Replay is exact: a run that is rebuilt from its journal at any turn has issued the same commands, waits for the same
    and has seen the same.
L7  A form is open as long as the program waits for it, and no longer. The program gets the answer that people gave, or
    TaskExpired where nobody did in time; over time-outs, races, cancellation, restarts and retries.

``python -m tests.laws.sagas SEED COUNT`` judges many seeds; ``make sagas SEED=7`` plays one again.
"""
