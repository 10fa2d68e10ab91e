"""What is wrong with a table."""


class TableError(ValueError):
    """A table, or a cell of it, cannot be used; the message names the column and says what to do."""


class CellTypeError(TableError, TypeError):
    """A column or cell has a type that no number or category can be made of (also a `TypeError`)."""
