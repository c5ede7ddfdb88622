"""What a cluster costs, and how far it carries. Neither needs a GPU.

overhead     the same calls through a worker of a private cluster and through a process of one's own, in turns
efficiency   simulated searches on 1 to 512 GPUs, with task times that were measured
"""
