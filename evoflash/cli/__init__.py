"""One file or folder for each command, and what they share. A command parses, makes one call and prints.

A folder's `command.py` has the command's options and loads nothing heavy; the modules beside it do the work.

    commands/   The commands, one file each
    options     The options that commands share, and what -v and -q do
    program     The command line
    unexpected  What a person is told of an error that nobody foresaw
"""
