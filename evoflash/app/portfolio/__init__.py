"""Chooses a few kernels for many shapes, with the rule that says which computes what.

candidates  The kernels that a portfolio is chosen from, and their compilation on all cores
choice      Chooses at most k kernels of a table, with the least regret over a mix of shapes
on_gpu      Times a portfolio's kernels on one shape in turns and judges what it timed
run         Makes a portfolio from a file of shapes
session     Fills a table with times, and builds a kernel when it is first asked for
table       How long each kernel takes on each shape of a mix, and the JSON file that keeps it
"""
