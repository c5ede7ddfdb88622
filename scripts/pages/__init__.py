"""All scripts that write committed text. They make it of records and of the code, and measure nothing.

    readme          what is generated within README.md and hand-written pages of docs/
    h200            docs/h200.md, of the records of scripts/peers
    unseen          docs/unseen.md, likewise: searches of problems that nobody tuned
    genes           docs/genes.md, of the families' headers and the record of scripts.families.gene_ab
    emulator        the tables of docs/emulator.md, of the record of scripts/sanitizer
    self_test       the tables of docs/self-test.md, of the corpus of frauds
    console/        every console block, by running its commands
    ladder_chart    docs/ladder-h200-mission.svg, of the recorded climb
    champions       evoflash/champions/<gpu>.toml, of records and databases

    parts/          what readme writes within pages
    markdown        tables, text between two marks of a page, and whole pages

readme, h200, unseen, genes, emulator, self_test and console have `--check`, which says whether their text is
stale. A command that a page shows beside a record is the one that made it, in the words of its day: what was
`scripts/NAME.py` then lies in a topic of scripts/ now.
"""
