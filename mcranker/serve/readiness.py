"""The ledgers of a service, and whether they can be written to at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.store import LedgerStore

SECONDS = 2.0
"""Within which a ledger has to answer."""


class LedgerProbe:
    """Checks ledgers, each by one look at a time: a database that is away gets no queue of them."""

    def __init__(self, ledgers: Iterable[Ledger | None]) -> None:
        self._stores = {each.name: each.store for each in ledgers if each is not None}
        self._looks: dict[str, asyncio.Future[set[bytes]]] = {}

    async def writable(self) -> bool:
        """Return True if every ledger can be written to."""
        looks = [self._look(name, store) for name, store in self._stores.items()]
        if not looks:
            return True
        done, late = await asyncio.wait(looks, timeout=SECONDS)
        return not late and all(each.exception() is None for each in done)

    def _look(self, name: str, store: LedgerStore) -> asyncio.Future[set[bytes]]:
        look = self._looks.get(name)
        if look is None or look.done():
            look = self._looks[name] = asyncio.ensure_future(store.claim_many(()))
            # Its error is read even if it comes late.
            look.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return look
