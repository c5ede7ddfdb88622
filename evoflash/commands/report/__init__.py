"""`evoflash report`: a run as one HTML page that needs no other file and no network, and as JSON.

command     the command's options
record      what a report says: records, and their JSON
winner_record  the same of the winner
collect     a run's report, from the database
outcomes    its candidates: every one, the best so far, rejections, what it cost
verdict     the winner, and what cannot be told apart from it
lineage     the winner's way, hop by hop, and why it won
retimed     that way timed again on this machine's GPU, in turns
fronts      its candidates that no other is better than in two things
floors      what bounds the winner: the GPU's rooflines, and the model's terms
kernel      the winner's source, and what the emulator says of it
words       numbers and commands as they stand in sentences
html/       the record as a page
"""
