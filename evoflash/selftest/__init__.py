"""Self-test: frauds and mistakes that the harness must reject, honest kernels that it must accept."""
