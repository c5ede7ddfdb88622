"""Kernel families: a template with a header becomes a search space, CUDA text and launches. Compiling is
compilers/, running is cuda/ or emulator/.

    expression  the expressions of a header, compiled; strict about names and types
    fields      single fields of a header, of a stated type
    validity    all checks of a family as one function
    header      a template's header as records
    family      a family: its search space, and the launches of a genome
    proportions how a genome's launches fill a GPU, known before it is compiled
    renderer    the CUDA text of a genome
    shrunk      that text with smaller constants, for some runs in the emulator
    launch_expression  a launch expression with all but a shape's sizes worked out
    export      the text as one file that needs nothing else
    host_part   what stands around the kernel in that file: declarations in C, and what launches it
    exported    the command in such a file's banner, read back
"""
