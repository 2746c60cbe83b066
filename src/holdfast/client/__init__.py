"""The client: what a program, a script or the command line does with runs."""
