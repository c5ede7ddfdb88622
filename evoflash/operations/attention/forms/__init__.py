"""The forms in which kernels take attention's tensors: a file for each, the one description of it.

dense  The dense form of an attention call
"""
