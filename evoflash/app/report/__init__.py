"""`evoflash report`: a run as one HTML page that needs no other file and no network, and as JSON.

    candidates  A run's candidates in numbers
    collect     A run's report, from the database
    lineage     How a winner came about, hop by hop, what each of its values is worth, and all hops timed
                again
    record      What a report says, as records
    winner      The winner of a run
"""
