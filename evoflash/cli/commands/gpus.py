"""`evoflash gpus` lists the GPUs that evoflash knows and marks the one present. It measures nothing."""

from evoflash.cli.shared_options import Json, show


def gpus(as_json: Json = False) -> None:
    """The GPUs that evoflash knows, the one present marked.

    Example: evoflash gpus
    """
    from evoflash.app import catalogue
    from evoflash.views.catalogue import print_gpus

    show(catalogue.gpus(), print_gpus, as_json=as_json)
