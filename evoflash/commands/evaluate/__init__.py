"""`evoflash evaluate`: one given genome through every check to its time, stored like any evaluation.

command     the command's options
subject     which genome was meant: values, an id or a file
run         the genome evaluated and stored, on the GPU or in the emulator
emulated    the genome checked by the emulator alone, and not stored
"""
