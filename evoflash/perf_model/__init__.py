"""perf_model: to be written."""
