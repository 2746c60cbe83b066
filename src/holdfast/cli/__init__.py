"""The command line ``holdfast …``: arguments in, text or JSON out. It decides nothing; the client does."""
