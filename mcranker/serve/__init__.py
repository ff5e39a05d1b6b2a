"""The HTTP service: rankers for the clients of other rerankers.

Needs ``pip install 'mcranker[serve]'``. See ``docs/serve.md``.
"""

from __future__ import annotations

from mcranker.serve.app import create_app
from mcranker.serve.keys import hash_key, new_key
from mcranker.serve.settings import Limits, RankerSettings, Settings

__all__ = ["Limits", "RankerSettings", "Settings", "create_app", "hash_key", "new_key"]
