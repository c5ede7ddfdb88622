"""What a cluster costs, and how far it carries. Neither needs a GPU.

overhead      the same calls and searches by a worker of a private cluster and without Dask, in turns
efficiency    simulated searches on 1 to 512 GPUs, with task times that were measured
whole_search  a search whose GPUs are stand-ins: what a candidate costs the search process
stand_ins     processes that are busy as long as a GPU would be
aa            one kernel on every GPU: whether their times are the same once they are ratios to the anchor
"""

import evoflash  # noqa: F401  # before NumPy: keeps its threads from spinning, as in every search
