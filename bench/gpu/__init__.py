"""The engine for devices, measured part by part: see `__main__`."""
