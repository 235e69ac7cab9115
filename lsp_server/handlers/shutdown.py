"""`shutdown`: answer every request that still runs, keep nothing, and leave the worker to others."""

import asyncio
import logging

from lsp_server.lsp.dispatch import InfillProtocol
from lsp_server.session import Session

LIMIT_S = 2.0
log = logging.getLogger(__name__)


async def shutdown(session: Session, protocol: InfillProtocol) -> None:
    await protocol.drain(LIMIT_S)
    await leave(session)


async def leave(session: Session) -> None:
    """Forget the documents and leave the worker, but do not wait for one that hangs."""
    session.close()
    await session.shadow.close()
    await session.recorder.close()
    try:
        async with asyncio.timeout(LIMIT_S):
            connections = (session.worker, session.partner)
            await asyncio.gather(*(each.close() for each in connections if each is not None))
    except TimeoutError:
        log.warning("a worker did not let go in %g s; left it as it is", LIMIT_S)
