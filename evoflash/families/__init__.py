"""Kernel families: a template with a header becomes a search space, CUDA text and launches. Compiling is
compilers/, running is cuda/ or emulator/.

    expression  the expressions of a header, compiled; strict about names and types
    fields      single fields of a header, of a stated type
    validity    all checks of a family as one function
    header      a template's header as records
    family      a family: its search space, and the launches of a genome
    renderer    the CUDA text of a genome
    export      the text as one file that needs nothing else
    exported    the command in such a file's banner, read back
"""
