"""gpu_process: to be written."""
