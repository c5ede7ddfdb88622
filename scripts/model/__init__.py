"""What the performance model is worth beside measured times.

error  Makes evoflash/estimate_error.toml
"""
