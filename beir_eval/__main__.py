"""``python -m beir_eval`` is the `beir-eval` command."""

from beir_eval.cli import main

if __name__ == "__main__":
    main()
