"""The format of model files: small, safe to load, and readable by every later version.

`tabgnm.estimators.model_file` writes estimators in this format and reads them.
"""

from tabgnm.modelfile.errors import ModelFileError as ModelFileError

__all__ = ["ModelFileError"]
