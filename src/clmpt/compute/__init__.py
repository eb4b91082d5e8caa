"""The machine: devices, threads, processors, memory, tensor files.

Knows nothing about graphs or models.
"""
