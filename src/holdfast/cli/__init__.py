"""The command line ``holdfast …``: words in, words or JSON out. It decides nothing; the client does."""
