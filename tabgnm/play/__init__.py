"""The playground: a page on this computer on which a machine learns two columns, live."""

from tabgnm.play.serving import serve

__all__ = ["serve"]
