"""Every console block of the README and of docs/ is made by running its commands; so is the notebook.

    python -m scripts.pages.console               run what is quick, and write the pages
    python -m scripts.pages.console --full        run everything, and renew the kept records
    python -m scripts.pages.console --check       compare only; with --full everything

A block is fenced as `console` and has a line above it that says where its output is from:

    <!-- console: run -->            the commands are run each time that the pages are made or checked
    <!-- console: kept NAME -->      they take long: the output is that of records/console/NAME.txt
    <!-- console: shown, REASON -->  they cannot be run here, so no output stands below them

The blocks of a page are run in order, in one new folder, which is their home folder too.

    blocks    The console blocks of a page
    notebook  Runs docs/notebook.ipynb and writes its outputs into it
    session   Commands run as a reader of a page would, in an empty home folder, and what of their output is
              compared
"""
