"""Files that are written completely or not at all, and read once, without trusting their content.

Model files and checkpoints use these modules.
"""

from tabgnm._files.errors import FileError as FileError

__all__ = ["FileError"]
