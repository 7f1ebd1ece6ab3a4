"""Many gets at once with asyncio, while the event loop stays free. Runs alone or on a cluster."""
import asyncio

import numpy as np

import oncilla


async def main() -> None:
    async with await oncilla.aconnect(embedded="fallback") as session:
        parts = [await session.aallocate(1 << 16, dedicated=True) for _ in range(8)]
        await asyncio.gather(*(part.aput_from(np.full(8192, i, np.int64)) for i, part in enumerate(parts)))
        pieces = await asyncio.gather(*(part.aget(0, 8) for part in parts))
        print([int.from_bytes(piece, "little") for piece in pieces])
        assert [piece[0] for piece in pieces] == list(range(8))


asyncio.run(main())
