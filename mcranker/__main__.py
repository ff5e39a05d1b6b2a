"""``python -m mcranker`` is the `mcranker` command."""

from mcranker.cli import main

if __name__ == "__main__":
    main()
