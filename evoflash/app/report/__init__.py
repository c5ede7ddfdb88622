"""Collects all that is known of a run into one record, for JSON or a page. Shows nothing.

candidates  Pareto fronts of a run's correct kernels
collect     A run's report, from the database
lineage     How a winner came about, hop by hop, and what each of its values is worth
record      What a report says, as records, and their JSON: the page has no other source
winner      The winner of a run
"""
