"""An engine's definitions: given and published ones, moves of runs, pictures."""
