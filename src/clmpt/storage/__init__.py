"""Files on disk: atomic writes, run folders, downloads, safe reading.

Files are not trusted: no unrestricted unpickling, limits on every size. Needs no torch.
"""
