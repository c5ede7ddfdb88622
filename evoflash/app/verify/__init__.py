"""Checks somebody's claim about a kernel and times the kernel again on this machine.

around   What stands around an exported kernel, against what this evoflash writes around it
claim    What somebody says of a kernel, read from the JSON that evoflash prints
finding  The kernel that a claim names, taken up the whole ladder on this machine
reading  From what the command line names to one claim
verdict  Confirmed, not confirmed, or not to be compared
"""
