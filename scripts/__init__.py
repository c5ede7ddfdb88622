"""Everything that is run on a checkout and is no part of the program; each folder is a topic."""
