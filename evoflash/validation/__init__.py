"""Judges whether outputs are right, with NumPy on the host. Knows neither who ran the kernel nor where.

    cases        Test inputs with their right answers, each computed once
    metamorphic  Is an output right? Checks without a reference that every operation shares
    plan         Which launches check a kernel on a workload, and what must hold of their outputs
    validator    Is an output right? Thresholds against the fp64 reference
"""
