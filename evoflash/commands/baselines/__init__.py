"""baselines: to be written."""
