"""The `mcranker` command: one module a verb, loaded when the verb is used.

Results go to standard output, everything else to standard error. Exit codes:

    0    done
    1    error: one line on standard error says what happened and what to do
    2    bad usage: options that cannot be, or do not go together
    3    done, but some scores are missing
    129  stopped by SIGHUP: its terminal is gone
    130  interrupted (Ctrl-C)
    141  the reader of the output has closed it (``| head``)
    143  stopped by SIGTERM
"""

from mcranker.cli.group import cli, main

__all__ = ["cli", "main"]
