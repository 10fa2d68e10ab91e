"""Model files: small, safe to load, and readable by every later version."""

from tabgnm.modelfile.errors import ModelFileError as ModelFileError
from tabgnm.modelfile.estimator_file import load as load
from tabgnm.modelfile.estimator_file import save as save

__all__ = ["ModelFileError", "load", "save"]
