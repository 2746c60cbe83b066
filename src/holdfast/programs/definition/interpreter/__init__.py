"""The interpreter: a definition as a program of the kernel. It runs to its next wait, and does no I/O."""
