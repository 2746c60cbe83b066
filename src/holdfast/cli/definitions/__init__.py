"""The commands of ``holdfast def``: definitions in files and in the store."""
