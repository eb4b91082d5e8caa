"""Where it runs: devices, threads, processors, memory, tensors in files.

Knows the machine, and nothing of graphs or models.
"""
