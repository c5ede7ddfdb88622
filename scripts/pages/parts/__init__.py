"""What is generated within README.md and hand-written pages of docs/, as text; readme.py puts it in.

h200_digest      the README's table of docs/h200.md
unseen_digest    its sentence on docs/unseen.md
without_archive  a section of docs/unseen.md; unseen.py puts it in
search_tables    the table of docs/searching.md on searches of a GPU
replay_table     its table on replays
code_map         tables of families, packages and layers
counts           numbers in sentences of the pages
settings         the table of settings in docs/commands.md
"""
