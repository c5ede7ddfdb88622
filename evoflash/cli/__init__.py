"""The command line: a command parses its options, makes one call and prints what it answers.

Computes nothing. Views and use cases are imported by functions, so that `--help` loads nothing heavy.

    commands/    The commands, one file each
    json_answer  With --json a command's answer is one JSON document on stdout, whatever becomes of it
    options      The options that commands share, and their defaults from config files and the environment
    program      The program's entry `main`, and the list of the commands, which stand in commands/. Decides
                 nothing
"""
