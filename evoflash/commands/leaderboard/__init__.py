"""`evoflash leaderboard`: correct kernels of a database, fastest first.

command     the command's options
table       the rows, as db/leaderboard.sql ranks them
report      the rows as tables, Markdown, JSON or CSV
"""
