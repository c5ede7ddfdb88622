"""What a person has set: environment variables and config files. Runs no command and imports no extension.

variables    the one table of settings: names, meanings, types, defaults
config_file  evoflash.toml, read and checked
values       which value of a setting holds, and where it comes from
"""
