"""``python -m tabgnm`` is the ``tabgnm`` command."""

from tabgnm.cli import main

if __name__ == "__main__":
    main()
