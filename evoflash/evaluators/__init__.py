"""Evaluators: genome -> Evaluation, by measuring on a GPU (measured.py) or by emulating (emulated.py)."""
