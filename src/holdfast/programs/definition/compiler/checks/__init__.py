"""What must hold of a definition before it is accepted, one topic per module. Each adds what is wrong to the faults."""
