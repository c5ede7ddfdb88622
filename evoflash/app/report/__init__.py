"""Collects all that is known of a run into one record, for JSON or a page. Shows nothing.

views/html/ makes the page of `evoflash report` out of it.

    candidates  A run's candidates in numbers, with the best so far, rejections and Pareto fronts
    collect     Chooses the run that a report is of and puts the report together from the database
    lineage     How a winner came about, hop by hop, and what each of its values is worth
    record      The records that a report is made of
    winner      The winner of a run, how sure its time is, what bounds it and what was checked
"""
