"""`evoflash problems` lists the named problems and their shapes. It searches none of them.

It says, too, which sizes may stand behind a name.
"""

from evoflash.cli.shared_options import Json, show


def problems(as_json: Json = False) -> None:
    """The named problems, and how to write others.

    Example: evoflash problems
    """
    from evoflash.app import catalogue
    from evoflash.views.catalogue import print_problems

    show(catalogue.problems(), print_problems, as_json=as_json)
