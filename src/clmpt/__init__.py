"""Complex questions to incomplete knowledge graphs."""

__version__ = "0.1.0"
