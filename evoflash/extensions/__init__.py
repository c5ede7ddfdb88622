"""Families, operators, GPUs and strategies of one's own, in folders outside of the package.

folders   where they are, and which files there are
own_code  a Python file of the user, loaded; its mistakes in one line
"""
