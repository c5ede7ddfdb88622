"""`evoflash leaderboard`: correct kernels of a database, fastest first.

command     the command's options
table       the rows, as db/leaderboard.sql ranks them
several     the rows of several databases, ranked together
pareto      the rows that no other row beats in every objective
front       the Pareto front of each ranking
report      the rows as tables, Markdown, JSON or CSV
page        the rows as one HTML page
"""
