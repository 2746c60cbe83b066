"""Stores: where runs live. One protocol of operations, never SQL; memory, sqlite and postgres implement it.

A store knows bytes, versions, leases and times. It never imports the kernel, and the kernel never imports a store.
"""
