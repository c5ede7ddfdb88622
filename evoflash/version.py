"""The version of evoflash, which files, databases and records name. Imports nothing."""

__version__ = "0.1.0"
