"""Checks somebody's claim about a kernel and times the kernel again on this machine.

claim          Reads what somebody says of a kernel from the JSON that evoflash prints
claim_sources  Makes one claim of an id, a JSON file, stdin, a .cu file or a folder
reproduction   Takes the kernel that a claim names up the whole ladder on this machine
surroundings   Compares the files around an exported kernel with what evoflash writes there today
verdict        Judges a claim against what was found, as confirmed, not confirmed or not comparable
"""
