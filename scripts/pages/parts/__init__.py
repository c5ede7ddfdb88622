"""What is generated within README.md and hand-written pages of docs/, as text; readme.py puts it in.

code_map         Tables of what the code holds
counts           What is generated within README.md and hand-written pages of docs/: readme.py puts it in
proposal_way     The modules that a proposal crosses, as scripts/proposal_path.py traced them on a GPU. Traces
                 nothing
replay_table     The table of docs/searching.md on replays
search_tables    The table of docs/searching.md
settings         The table of settings in docs/commands.md, made of evoflash/settings.py
without_archive  The section of docs/unseen.md on searches without the archive and with one seed a family, of
                 its records
"""
