"""Whether times of several GPUs are comparable.

aa            One kernel timed on every GPU of this machine
efficiency    Simulated searches on 1 to 512 GPUs, with task times that were measured
overhead      What Dask costs
stand_ins     What stands in for a GPU where everything else is measured
whole_search  A search without a GPU whose GPU work takes as long as a real one's
"""
