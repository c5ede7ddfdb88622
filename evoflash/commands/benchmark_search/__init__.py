"""`evoflash benchmark-search`: strategies and rivals on recorded spaces, by evoflash/replay/benchmark.py.

command     the command's options
record      what was found as JSON, with the command that made it
report      the table for a terminal of 80 columns
page        one HTML page that needs no other file
plots       its plots, as SVG
"""
