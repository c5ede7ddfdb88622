"""Whether times of several GPUs are comparable.

aa  One kernel timed on every GPU of this machine
"""
