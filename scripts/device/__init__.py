"""Many independent measurements in one call of a lent machine with GPUs. Asks for no machine.

batch    Runs requests on the GPUs of this machine, several at once, and packs what they leave
prepare  Packs what the lent machine lacks into .dev/, for `carry`, and unpacks what came back
"""
