"""Judges whether outputs are right, with NumPy on the host. Knows neither who ran the kernel nor where.

cases        Test inputs with their right answers, each computed once
metamorphic  Checks an output without a reference
plan         Which launches check a kernel on a workload, and what must hold of their outputs
validator    Judges an output against the fp64 reference by thresholds
"""
