"""The HTTP service: rankers for the clients of other rerankers.

Needs ``pip install 'mcranker[serve]'``. See ``docs/serve.md``.
"""

from __future__ import annotations

from mcranker.serve.app import create_app
from mcranker.serve.settings import Limits, RankerSettings, Settings, hash_key, new_key

__all__ = ["Limits", "RankerSettings", "Settings", "create_app", "hash_key", "new_key"]
