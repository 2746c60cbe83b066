"""The worker's side of the gate: the calls of held runs, judged, asked about, performed and receipted."""
