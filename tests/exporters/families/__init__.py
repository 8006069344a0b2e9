"""Importing this registers all models; each file is one family."""
from . import attention, classification, control, detection, generative, language, segmentation, sequences, speech, tabular  # noqa: F401
