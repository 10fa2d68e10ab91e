"""Files that are written completely or not at all, and read once and without trust in their content.

Model files and checkpoints are made of these parts.
"""

from tabgnm._files.errors import FileError as FileError

__all__ = ["FileError"]
