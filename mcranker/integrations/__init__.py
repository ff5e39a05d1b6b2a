"""Rankers and indexes as parts of other libraries, a module and an extra for each.

A module imports its library, and nothing imports a module but who uses it. See
``docs/serve.md``.
"""
