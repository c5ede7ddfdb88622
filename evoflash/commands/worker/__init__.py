"""`evoflash worker`: this machine works for the searches of a scheduler. The worker: evaluators/cluster/.

command     the command's options
"""
