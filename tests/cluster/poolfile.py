"""A durable pool's file as src/memory/nvme writes it: what a test puts into one of `ocm pool create`, and damages."""
import pathlib
import struct

BLOCK, HEADER = 4096, struct.Struct("<4sBBHIIQQQ")
PAYLOAD = BLOCK - HEADER.size
SUPERBLOCK, CHECKPOINT, JOURNAL = 1, 2, 3
_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def block(kind: int, payload: bytes, *, pool: int, sequence: int, first: int, blocks: int) -> bytes:
    def whole(crc: int) -> bytes:
        header = HEADER.pack(b"OCM1", 1, kind, len(payload), crc, blocks, pool, sequence, first)
        return (header + payload).ljust(BLOCK, b"\0")
    return whole(crc32c(whole(0)))


def made(extent: int, length: int) -> bytes:
    return struct.pack("<BQIQ", 1, extent << 20, extent, length)


def named(extent: int, name: bytes) -> bytes:
    return struct.pack("<BQII", 2, extent << 20, extent, len(name)) + name


def page_in(extent: int, page: int, slot: int, crc: int) -> bytes:
    return struct.pack("<BQIQIIQ", 4, extent << 20, extent, page, slot, crc, 1)


class PoolFile:
    """`explained`: what `ocm pool explain --json` says of a new one."""

    def __init__(self, path: pathlib.Path, explained: dict):
        self.path, self.pool = path, int(explained["pool"], 16)
        self.page_bytes, self.slots_at = explained["page_bytes"], explained["metadata_bytes"]
        at = path.read_bytes().index(b"OCM1", 2 * BLOCK)  # its only checkpoint lies at the second place
        self.checkpoints = 2 * BLOCK, at
        self.journal_at = 2 * at - 2 * BLOCK

    def write(self, offset: int, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def damage(self, offset: int) -> None:
        self.write(offset, bytes([self.path.read_bytes()[offset] ^ 1]))

    def checkpoint(self, records: bytes, sequence: int = 2) -> None:
        """A newer one than that of its making, after which the journal begins at group 1."""
        stream = struct.pack("<Q", 1) + records
        parts = [stream[at:at + PAYLOAD] for at in range(0, len(stream), PAYLOAD)]
        for number, part in enumerate(parts):
            self.write(self.checkpoints[sequence % 2] + number * BLOCK,
                       block(CHECKPOINT, part, pool=self.pool, sequence=sequence, first=number, blocks=len(parts)))

    def group(self, sequence: int, records: bytes, blocks: int = 1) -> None:
        """The first block of one in the journal; of a group of more it is what a crash left."""
        self.write(self.journal_at + sequence * BLOCK,
                   block(JOURNAL, records, pool=self.pool, sequence=sequence, first=sequence, blocks=blocks))

    def started(self, starts: int, cluster: bytes) -> None:
        """As a daemon of that cluster leaves it."""
        length = self.path.stat().st_size
        payload = struct.pack("<QQII", length, self.page_bytes, 9, len(cluster)) + cluster
        for place in range(2):
            self.write(place * BLOCK,
                       block(SUPERBLOCK, payload, pool=self.pool, sequence=starts, first=0, blocks=1))

    def page(self, extent: int, page: int, slot: int) -> bytes:
        """Writes it, and gives its record."""
        data = bytes([extent]) * self.page_bytes
        self.write(self.slots_at + slot * self.page_bytes, data)
        return page_in(extent, page, slot, crc32c(data))
