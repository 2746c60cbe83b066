"""The pages of the console: a module for each subject. ``table`` has all of them."""
