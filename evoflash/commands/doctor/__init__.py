"""`evoflash doctor`: what this machine lacks, and whether evoflash can be trusted on it.

command     the command, and its options --conformance, --self-test and --noise, which other packages answer
examine     what is examined without these options: packages, compilers, folders, GPU
"""
