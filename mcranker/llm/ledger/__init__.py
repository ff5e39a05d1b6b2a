"""Every answer that was paid for, in one SQLite file."""
