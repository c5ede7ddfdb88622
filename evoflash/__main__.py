"""`python -m evoflash`: the same program as the `evoflash` command, without an install step."""

from evoflash.cli.program import main

if __name__ == "__main__":
    main()
