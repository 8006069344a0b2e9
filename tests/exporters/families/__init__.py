"""Importing this registers all models; each file is one family."""
from . import classification  # noqa: F401
