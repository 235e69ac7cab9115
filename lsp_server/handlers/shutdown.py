"""`shutdown`: every request that still runs is answered, nothing is kept, and the worker is left to others."""

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
    """Leave the worker, but wait for no worker that hangs."""
    session.close()
    try:
        async with asyncio.timeout(LIMIT_S):
            await session.worker.close()
    except TimeoutError:
        log.warning("the worker did not let go in %g s; left it as it is", LIMIT_S)
