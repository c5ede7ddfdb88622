"""The version of evoflash, which files, databases and records name. Imports nothing."""

__version__ = "0.1.0"

SCHEMA_VERSION = 1  # of every JSON document that evoflash prints; a key that changes its meaning raises it
