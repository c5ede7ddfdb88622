"""Kernel families, which make a search space, CUDA text and machine code of a template. Runs no kernel.

    ef_layer    The ef:: layer as text
    expression  The expressions of a template header
    family      Kernel families
    gxx         Builds the emulator's runtime and rendered kernels with g++; runs neither
    header      Reads a template's TOML header into records and compiled expressions
    nvrtc       CUDA text -> Build with NVRTC; needs no GPU and no driver
    occupancy   How a genome's launches fill a GPU: numbers known before anything is compiled
    renderer    Genome -> CUDA text
    standalone  What an exported file says of itself
"""
