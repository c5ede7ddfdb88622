"""Kernel families, which make a search space, CUDA text and machine code of a template. Runs no kernel.

gpu/ and emulator/ run them.

    cached_files  Tells whether what the cache holds is what was put there, by digests kept with it
    edited_text   Edits of the text that is rendered of a genome
    ef_layer      The text of the ef:: layer, and just those of its GPU functions that a kernel uses
    expression    The expressions of a template header
    family        A kernel family as a search space and launches, made of its template's header
    gxx           Builds the emulator's runtime and rendered kernels with g++. Runs neither
    header        Reads a template's TOML header into records and compiled expressions
    kernel_text   A kernel's text as compilers read it
    lint          Refuses what a kernel's text may not hold because the emulator would not see it, by a list
                  of what it may
    nvrtc         Compiles CUDA text with NVRTC to machine code and its figures
    plain_cuda    Makes of a plain CUDA file the text that g++ compiles for the emulator, and NVRTC's
    ptx_text      Puts calls of the emulator in place of inline PTX, instruction by instruction
    renderer      Renders a genome as CUDA text
    standalone    Writes a genome as one kernel.cu that needs nothing else, and reads such a file's banner
                  back
"""
