"""One program, written as a Python workflow function and as a definition: both do the same to the world outside.

``grow`` has the programs of a seed and what happens to their runs; ``function`` plays a program, ``document`` writes it
as a definition. ``world`` is the outside: what it answers is decided by the place of a call in its program, never by
time or order, so both ways meet the same world. ``life`` lets one way happen on whole engines that die, ``runner``
compares.

The two ways differ on purpose in these points, and the generator leaves them out:

- A definition undoes at once what a time-out or a lost race has closed, also calls that had succeeded inside; a
  function undoes such a call when its run ends, and keeps what had succeeded. So these hold one call each.
- A definition waits for a call that it gave up; a function goes on. So nothing is beside a time-out or a race, and what
  people do is bound to places in the program, not to times.
- A branch that failed in a definition's fork closes the others, as a time-out does. So branches have one call each
  where the failure is caught.
- The join of a definition's fork publishes what its branches wrote. Where it fails, and that is caught, the acts that
  were done stand, but their results are lost; the function forgets them, too.
- If what a failed fork closes cannot be undone, and the failure of the fork is caught, a definition goes on; if it is a
  time-out or a won race that closes it, the node fails. A function that gave a call up fails at its end. So every undo
  succeeds where something is given up in a program that goes on.
- A definition that waits for what it closes has not failed yet, and can still be cancelled; a function that undoes has.
  So nothing fails in a program that is cancelled.
- A branch of a definition that failed is known to have failed when all beside it in its fork is closed. If another one
  fails meanwhile, the run fails of that, and a retry does only that again; the next retry does the first. So runs are
  retried several times.
- Of two failures with one message a retry cannot tell of which one a run failed while parts of it went on. So each has
  a message of its own.
- An act without an undo that was given up may be done or not: an engine that dies ends it. It counts where a run relies
  on it.
- A definition has no ``keep_done()`` and no ``continue_as_new()``.
"""
