"""Optional dependencies, imported when they are needed."""

import importlib
from types import ModuleType


class MissingExtraError(ImportError):
    """An optional dependency is not installed.

    Parameters
    ----------
    module : str
        The module that could not be imported.
    extra : str
        The extra of the ``tabgnm`` distribution that brings it.
    purpose : str
        What the caller wanted to do, as the subject of a sentence.
    """

    def __init__(self, module: str, extra: str, purpose: str) -> None:
        self.extra = extra
        super().__init__(
            f'{purpose} needs {module}, which is not installed; get it with: pip install "tabgnm[{extra}]"',
            name=module,
        )


def import_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or raise an error that explains how to install it.

    Parameters
    ----------
    module : str
        Dotted name of the module, such as ``"matplotlib.figure"``.
    extra : str
        The extra of the ``tabgnm`` distribution that brings it.
    purpose : str
        What needs it, as the subject of a sentence: ``"drawing the picture"``.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingExtraError
        When the module's distribution is not installed.

    Examples
    --------
    >>> import_extra("not_installed", "plot", "drawing the picture")
    Traceback (most recent call last):
        ...
    tabgnm._extras.MissingExtraError: drawing the picture needs not_installed, which is not installed; ...
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # An installed package that fails on one of its own imports is broken, not missing: show that error.
        if error.name != package:
            raise
        raise MissingExtraError(package, extra, purpose) from None
