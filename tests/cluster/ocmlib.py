"""The C ABI through ctypes, as the tests' programs use it. Every failure raises OcmError(code name)."""
import collections
import contextlib
import ctypes as c
import mmap
import os
import pathlib
import select
import socket
import time

# Where to look first: a sanitizer's daemons serve the release library, which Python can load as it is.
DAEMON_DIR = os.environ.get("OCM_DAEMON_DIR")
BIN_DIR = pathlib.Path(os.environ.get("OCM_BIN_DIR", pathlib.Path(__file__).resolve().parents[2] / "build/release"))


def find_binary(name: str) -> pathlib.Path:
    if DAEMON_DIR and name == "oncillad":
        return pathlib.Path(DAEMON_DIR) / "daemon" / name
    for folder in ("", "cli", "daemon", "src/capi", "examples", "bin", "lib"):
        path = BIN_DIR / folder / name
        if path.is_file():
            return path
    raise FileNotFoundError(f"{name} is not below {BIN_DIR}; run `make build`")


class OcmError(Exception):
    """`node` and `subject`: what it is about, as ocm_last_error_info() tells; "" if nothing."""

    def __init__(self, name: str, detail: str = "", node: str = "", subject: str = ""):
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail
        self.node = node
        self.subject = subject


class ErrorInfo(c.Structure):
    _fields_ = [("size", c.c_size_t), ("status", c.c_int), ("subject_kind", c.c_int), ("node", c.c_char_p),
                ("subject", c.c_char_p)]


class SessionOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("socket_path", c.c_char_p), ("program", c.c_char_p), ("flags", c.c_uint32),
                ("fabric", c.c_int), ("deadline_ns", c.c_uint64), ("embedded_bytes", c.c_uint64)]


class AllocationOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("kind", c.c_int), ("layout", c.c_int), ("extents", c.c_uint32),
                ("chunk_bytes", c.c_uint64), ("nodes", c.POINTER(c.c_char_p)), ("nodes_count", c.c_size_t),
                ("fabric", c.c_int), ("flags", c.c_uint32)]


class ExtentInfo(c.Structure):
    _fields_ = [("size", c.c_size_t), ("global_address", c.c_uint64), ("bytes", c.c_uint64),
                ("generation", c.c_uint32), ("fabric", c.c_int), ("local", c.c_bool), ("lost", c.c_bool),
                ("node", c.c_char * 64), ("offset", c.c_uint64)]


class AllocationInfo(c.Structure):
    _fields_ = [("size", c.c_size_t), ("bytes", c.c_uint64), ("kind", c.c_int), ("layout", c.c_int),
                ("chunk_bytes", c.c_uint64), ("extents", c.c_uint32), ("access", c.c_int), ("published", c.c_bool),
                ("slab", c.c_bool), ("owner_uid", c.c_uint32), ("mode", c.c_uint32), ("own_uid", c.c_uint32),
                ("durable", c.c_bool), ("id", c.c_uint8 * 16), ("coherent", c.c_bool)]


class Event(c.Structure):
    _fields_ = [("size", c.c_size_t), ("kind", c.c_int), ("allocation", c.c_uint8 * 16), ("name", c.c_char * 256),
                ("node", c.c_char * 64), ("partition", c.c_uint32)]


class NameInfo(c.Structure):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char * 256), ("bytes", c.c_uint64), ("kind", c.c_int),
                ("layout", c.c_int), ("extents", c.c_uint32), ("owner_uid", c.c_uint32), ("mode", c.c_uint32),
                ("lost", c.c_bool)]


class NodeInfo(c.Structure):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char * 64), ("partition", c.c_uint32), ("state", c.c_int),
                ("self", c.c_bool), ("coordinator", c.c_bool), ("pool_bytes", c.c_uint64 * 3),
                ("used_bytes", c.c_uint64 * 3), ("sessions", c.c_uint64), ("extents", c.c_uint64),
                ("heartbeat_age_ns", c.c_uint64)]


class Place(c.Structure):
    _fields_ = [("allocation", c.c_void_p), ("offset", c.c_uint64), ("pointer", c.c_void_p)]


class Segment(c.Structure):
    _fields_ = [("offset", c.c_uint64), ("pointer", c.c_void_p), ("bytes", c.c_uint64)]


LAYOUTS = {"single": 0, "striped": 1, "replicated": 2}
EVENTS = {1: "resync", 2: "revoked", 3: "moved", 4: "unwatched", 5: "node_alive", 6: "node_suspect", 7: "node_dead",
          8: "node_draining"}
STATES = {1: "alive", 2: "suspect", 3: "dead", 4: "draining"}
DEDICATED, ZERO, POPULATE, HUGEPAGES, LOCAL, REMOTE, CHECKSUM, DURABLE, COHERENT = (1 << i for i in range(9))
# All that can be coherent is, and each node has a cache of so many pages: harness.py.
CACHE_PAGES = int(os.environ.get("OCM_TEST_CACHE_PAGES", "0"))
NAME_VISIT = c.CFUNCTYPE(c.c_bool, c.POINTER(NameInfo), c.c_void_p)
NODE_VISIT = c.CFUNCTYPE(c.c_bool, c.POINTER(NodeInfo), c.c_void_p)

_lib = None


def lib():
    global _lib
    if _lib is None:
        _lib = c.CDLL(str(find_binary("liboncilla.so")))
        for name in ("ocm_status_name", "ocm_strerror", "ocm_last_error"):
            getattr(_lib, name).restype = c.c_char_p
        u64, p = c.c_uint64, c.c_void_p
        _lib.ocm_last_error_info.argtypes = [p]
        _lib.ocm_put.argtypes = [p, u64, p, u64]
        _lib.ocm_get.argtypes = [p, u64, p, u64]
        _lib.ocm_put_start.argtypes = [p, u64, p, u64, p]
        _lib.ocm_get_start.argtypes = [p, u64, p, u64, p]
        _lib.ocm_op_wait.argtypes = [p, c.c_uint32, u64]
        _lib.ocm_op_test.argtypes = [p]
        _lib.ocm_op_free.argtypes = [p]
        _lib.ocm_op_signal.argtypes = [p, c.c_int]
        _lib.ocm_put_strided_start.argtypes = [p, u64, u64, p, u64, u64, u64, p]
        _lib.ocm_atomic_fetch_add_start.argtypes = [p, u64, u64, p, p]
        _lib.ocm_atomic_compare_swap_start.argtypes = [p, u64, u64, u64, p, p]
        _lib.ocm_put_notify_start.argtypes = [p, u64, p, u64, u64, u64, p]
        _lib.ocm_allocation_create.argtypes = [p, u64, p, p]
        _lib.ocm_allocation_join.argtypes = [p, p, c.c_size_t, p]
        _lib.ocm_allocation_free.argtypes = [p]
        _lib.ocm_allocation_bytes.argtypes = [p]
        _lib.ocm_allocation_bytes.restype = u64
        _lib.ocm_allocation_extent_query.argtypes = [p, c.c_uint32, p]
        _lib.ocm_allocation_query.argtypes = [p, p]
        _lib.ocm_allocation_map.argtypes = [p, u64, u64, p]
        _lib.ocm_session_open.argtypes = [p, p]
        _lib.ocm_session_close.argtypes = [p]
        _lib.ocm_allocation_publish.argtypes = [p, c.c_char_p, c.c_uint32]
        _lib.ocm_allocation_attach.argtypes = [p, c.c_char_p, c.c_int, p]
        _lib.ocm_name_remove.argtypes = [p, c.c_char_p]
        _lib.ocm_name_list.argtypes = [p, c.c_char_p, NAME_VISIT, p]
        _lib.ocm_event_next.argtypes = [p, u64, p]
        _lib.ocm_node_list.argtypes = [p, NODE_VISIT, p]
        _lib.ocm_atomic_fetch_add.argtypes = [p, u64, u64, p]
        _lib.ocm_atomic_compare_swap.argtypes = [p, u64, u64, u64, p]
        _lib.ocm_put_notify.argtypes = [p, u64, p, u64, u64, u64]
        _lib.ocm_wait_at_least.argtypes = [p, u64, u64, u64, p]
        _lib.ocm_putv_start.argtypes = [p, p, c.c_size_t, p]
        _lib.ocm_place_copy.argtypes = [Place, Place, u64]
    return _lib


def check(code: int) -> int:
    if code < 0:
        info = ErrorInfo(c.sizeof(ErrorInfo))
        told = lib().ocm_last_error_info(c.byref(info)) == 0 and info.status == code
        names = (info.node.decode(), info.subject.decode()) if told else ()
        raise OcmError(lib().ocm_status_name(code).decode(), lib().ocm_last_error().decode(), *names)
    return code


def outcome(action) -> str:
    try:
        action()
        return "OK"
    except OcmError as error:
        return error.name


@contextlib.contextmanager
def half_memory(count: int):
    """The address of `count` bytes, of which the program may not touch the second half."""
    with mmap.mmap(-1, count) as memory:
        first = c.c_char.from_buffer(memory)
        try:
            if c.CDLL(None).mprotect(c.c_void_p(c.addressof(first) + count // 2), c.c_size_t(count // 2), 0) != 0:
                raise OSError("mprotect")
            yield c.addressof(first)
        finally:
            del first  # else the mapping cannot be closed


class Allocation:
    def __init__(self, handle):
        self.handle = handle

    def put(self, offset: int, data: bytes):
        check(lib().ocm_put(self.handle, offset, data, len(data)))

    def get(self, offset: int, count: int) -> bytes:
        buffer = c.create_string_buffer(count)
        check(lib().ocm_get(self.handle, offset, buffer, count))
        return buffer.raw

    def start(self, what: str, offset: int, count: int):
        """Starts a "put" or a "get" of so many bytes."""
        self.buffer, self.op = c.create_string_buffer(count), c.c_void_p()
        check(getattr(lib(), f"ocm_{what}_start")(self.handle, offset, self.buffer, count, c.byref(self.op)))

    def wait(self):
        check(lib().ocm_op_wait(self.op, 2, 0))  # and free the handle

    def moved(self, offset: int, count: int) -> bytes:
        """Of what was started last, from where it began."""
        return c.string_at(c.byref(self.buffer, offset), count)

    def start_many(self, count: int, each: int) -> int:
        """Gets of `each` bytes, one behind the other; an eventfd is told of each. Its descriptor."""
        self.signal = os.eventfd(0, os.EFD_NONBLOCK)
        self.buffer, self.many = c.create_string_buffer(count * each), [c.c_void_p() for _ in range(count)]
        for i, op in enumerate(self.many):
            check(lib().ocm_get_start(self.handle, i * each, c.byref(self.buffer, i * each), each, c.byref(op)))
            check(lib().ocm_op_signal(op, self.signal))
        return self.signal

    def told_within(self, seconds: float) -> int:
        """How many were complete, as the eventfd said, within that time; no call of the library meanwhile."""
        told, end = 0, time.monotonic() + seconds
        while told < len(self.many) and time.monotonic() < end:
            select.select([self.signal], [], [], max(0, end - time.monotonic()))
            with contextlib.suppress(BlockingIOError):
                told += os.eventfd_read(self.signal)
        return told

    def end_many(self) -> bytes:
        for op in self.many:
            assert check(lib().ocm_op_test(op)) == 1, "complete, as was told"
            check(lib().ocm_op_free(op))
        os.close(self.signal)
        return self.buffer.raw

    def long_and_then(self, count: int, each: int, by: "Allocation") -> bytes:
        """Starts a put of more segments than are sent at once, and gets the last one behind it, by that handle."""
        data = c.create_string_buffer(b"".join(bytes([1 + i % 250]) * each for i in range(count)), count * each)
        segments = (Segment * count)(*[Segment(i * each, c.addressof(data) + i * each, each) for i in range(count)])
        op = c.c_void_p()
        check(lib().ocm_putv_start(self.handle, segments, count, c.byref(op)))
        last = by.get((count - 1) * each, each)
        check(lib().ocm_op_wait(op, 2, 0))
        return last

    def fence_behind(self, count: int, each: int, by: "Allocation") -> bool:
        """Starts a long put and fences by that handle: is it complete?"""
        data = c.create_string_buffer(count * each)
        segments = (Segment * count)(*[Segment(i * each, c.addressof(data) + i * each, each) for i in range(count)])
        op = c.c_void_p()
        check(lib().ocm_putv_start(self.handle, segments, count, c.byref(op)))
        check(lib().ocm_fence(by.handle))
        complete = check(lib().ocm_op_test(op)) == 1
        check(lib().ocm_op_wait(op, 2, 0))
        return complete

    def copy_and_then(self, source: "Allocation", count: int, put: bytes, by: "Allocation") -> bytes:
        """What is there when a copy into it was started and a put of its last bytes behind it, by that handle."""
        op = c.c_void_p()
        ends = [Place(one.handle, 0, None) for one in (self, source)]
        check(lib().ocm_place_copy_start(*ends, c.c_uint64(count), c.byref(op)))
        by.put(count - len(put), put)
        check(lib().ocm_op_wait(op, 2, 0))
        return self.get(count - len(put), len(put))

    def prepare_same_bytes(self, count: int, each: int):
        """That many segments which all go to the first bytes."""
        self.buffer = c.create_string_buffer(b"".join(bytes([1 + i % 250]) * each for i in range(count)), count * each)
        self.segments = (Segment * count)(*[Segment(0, c.addressof(self.buffer) + i * each, each)
                                            for i in range(count)])

    def start_segments(self):
        self.op = c.c_void_p()
        check(lib().ocm_putv_start(self.handle, self.segments, len(self.segments), c.byref(self.op)))

    def break_connections_to(self, host: str) -> int:
        """As a reset would break them; how many they were."""
        broken = 0
        for fd in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as connection:
                if connection.family == socket.AF_INET and connection.getpeername()[0] == host:
                    connection.shutdown(socket.SHUT_RDWR)
                    broken += 1
        return broken

    def get_and_then_put(self, count: int, put: bytes) -> bytes:
        """What a get gives behind which a put of the same bytes was started."""
        self.start("get", 0, count)
        got, data, op = self.buffer, c.create_string_buffer(put, len(put)), c.c_void_p()
        check(lib().ocm_put_start(self.handle, 0, data, len(put), c.byref(op)))
        for one in (self.op, op):
            check(lib().ocm_op_wait(one, 2, 0))
        return got.raw

    def words_started(self, offset: int, count: int) -> list:
        """Additions of 1 to the word at `offset`, a compare-swap and a notified put behind them; the values before."""
        old, ops = (c.c_uint64 * (count + 1))(), [c.c_void_p() for _ in range(count + 2)]
        for i in range(count):
            check(lib().ocm_atomic_fetch_add_start(self.handle, offset, 1, c.byref(old, 8 * i), c.byref(ops[i])))
        check(lib().ocm_atomic_compare_swap_start(self.handle, offset, count, 1000, c.byref(old, 8 * count),
                                                  c.byref(ops[count])))
        check(lib().ocm_put_notify_start(self.handle, offset + 8, b"notified", 8, offset + 16, 7, c.byref(ops[-1])))
        for op in ops:
            check(lib().ocm_op_wait(op, 2, 0))
        return list(old)

    def put_raw(self, offset: int, count: int):
        """A put whose length need not fit the buffer: for bounds that must be refused before any byte moves."""
        buffer = c.create_string_buffer(16)
        check(lib().ocm_put(self.handle, offset, buffer, count))

    def put_from(self, offset: int, address: int, count: int):
        """Of memory that need not be this program's."""
        check(lib().ocm_put(self.handle, offset, address, count))

    def get_to_half(self, offset: int, count: int):
        with half_memory(count) as address:
            check(lib().ocm_get(self.handle, offset, address, count))

    def copy_from(self, offset: int, source: "Allocation", source_offset: int, count: int):
        check(lib().ocm_place_copy(Place(self.handle, offset, None), Place(source.handle, source_offset, None), count))

    def load(self, offset: int, count: int) -> bytes:
        """Through a pointer."""
        pointer = c.c_void_p()
        check(lib().ocm_allocation_map(self.handle, offset, count, c.byref(pointer)))
        return c.string_at(pointer, count)

    def keep_pointer(self, offset: int, count: int):
        self.kept = c.c_void_p()
        check(lib().ocm_allocation_map(self.handle, offset, count, c.byref(self.kept)))

    def peek(self, count: int) -> bytes:
        """Through the kept pointer, unchecked as a program's own loads."""
        return c.string_at(self.kept, count)

    def store(self, offset: int, data: bytes):
        """Through a pointer."""
        pointer = c.c_void_p()
        check(lib().ocm_allocation_map(self.handle, offset, len(data), c.byref(pointer)))
        c.memmove(pointer, data, len(data))

    def poke(self, data: bytes):
        """Through the kept pointer, unchecked as a program's own stores."""
        c.memmove(self.kept, data, len(data))

    def read_file(self, path: str, count: int) -> int:
        """read(2) into the kept pointer; the error's number, negative."""
        with open(path, "rb") as file:
            libc = c.CDLL(None, use_errno=True)
            libc.read.restype = c.c_ssize_t
            got = libc.read(file.fileno(), self.kept, c.c_size_t(count))
            return got if got >= 0 else -c.get_errno()

    def cut_up(self, offset: int, count: int):
        """Of the kept pointer: for reading only there, so that the kernel has several mappings."""
        libc = c.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = [c.c_void_p, c.c_size_t, c.c_int]
        assert libc.mprotect(self.kept.value + offset, count, mmap.PROT_READ) == 0

    def child_peeks(self, count: int) -> int:
        """A forked child's loads through the kept pointer: how it ends."""
        child = os.fork()
        if child == 0:
            c.string_at(self.kept, count)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def fetch_add(self, offset: int, value: int) -> int:
        old = c.c_uint64()
        check(lib().ocm_atomic_fetch_add(self.handle, offset, value, c.byref(old)))
        return old.value

    def compare_swap(self, offset: int, expected: int, desired: int) -> int:
        old = c.c_uint64()
        check(lib().ocm_atomic_compare_swap(self.handle, offset, expected, desired, c.byref(old)))
        return old.value

    def put_notify(self, offset: int, data: bytes, notify_offset: int, value: int):
        check(lib().ocm_put_notify(self.handle, offset, data, len(data), notify_offset, value))

    def put_notify_half(self, offset: int, count: int, notify_offset: int, value: int):
        with half_memory(count) as address:
            check(lib().ocm_put_notify(self.handle, offset, address, count, notify_offset, value))

    def wait_at_least(self, offset: int, value: int, deadline_s: float) -> int:
        seen = c.c_uint64()
        check(lib().ocm_wait_at_least(self.handle, offset, value, int(deadline_s * 1e9), c.byref(seen)))
        return seen.value

    def publish(self, name: str, mode: int = 0):
        check(lib().ocm_allocation_publish(self.handle, name.encode(), mode))

    def extents(self) -> list:
        info, out = AllocationInfo(size=c.sizeof(AllocationInfo)), []
        check(lib().ocm_allocation_query(self.handle, c.byref(info)))
        for i in range(info.extents):
            extent = ExtentInfo(size=c.sizeof(ExtentInfo))
            check(lib().ocm_allocation_extent_query(self.handle, i, c.byref(extent)))
            out.append({"node": extent.node.decode(), "bytes": extent.bytes, "local": extent.local, "lost": extent.lost,
                        "offset": extent.offset,
                        "address": extent.global_address, "generation": extent.generation})
        return out

    def id(self) -> str:
        """What events name it by."""
        info = AllocationInfo(size=c.sizeof(AllocationInfo))
        check(lib().ocm_allocation_query(self.handle, c.byref(info)))
        return bytes(info.id).hex()

    def free(self):
        check(lib().ocm_allocation_free(self.handle))


class Session:
    def __init__(self, socket_path: str, deadline_s: float = 0):
        options = SessionOptions(size=c.sizeof(SessionOptions), socket_path=socket_path.encode(),
                                 deadline_ns=int(deadline_s * 1e9))
        self.handle = c.c_void_p()
        self.many: dict = {}
        check(lib().ocm_session_open(c.byref(options), c.byref(self.handle)))

    def alloc(self, count: int, layout: str = "single", nodes=(), extents: int = 0, chunk: int = 0, flags: int = 0,
              kind: int = 0) -> Allocation:
        if CACHE_PAGES and kind == 0 and layout != "replicated" and not flags & DURABLE:
            flags |= COHERENT
        names = (c.c_char_p * max(len(nodes), 1))(*[n.encode() for n in nodes])
        options = AllocationOptions(size=c.sizeof(AllocationOptions), kind=kind, layout=LAYOUTS[layout],
                                    extents=extents, chunk_bytes=chunk, nodes=names if nodes else None,
                                    nodes_count=len(nodes), flags=flags)
        handle = c.c_void_p()
        check(lib().ocm_allocation_create(self.handle, count, c.byref(options), c.byref(handle)))
        return Allocation(handle)

    def make_many(self, name: str, count: int, each: int, **kwargs):
        self.many[name] = [self.alloc(each, **kwargs) for _ in range(count)]

    def free_many(self, name: str) -> dict:
        """How many of them ended with which code."""
        return collections.Counter(outcome(one.free) for one in self.many[name])

    def start_many(self, name: str, what: str, count: int):
        """A "put" or a "get" of so many bytes on each of them."""
        self.started = self.many[name]
        for one in self.started:
            one.start(what, 0, count)

    def copy_many(self, target: str, source: str, count: int):
        """Starts a copy for each pair."""
        self.started = self.many[target]
        for to, of in zip(self.started, self.many[source]):
            to.op = c.c_void_p()
            check(lib().ocm_place_copy_start(Place(to.handle, 0, None), Place(of.handle, 0, None), c.c_uint64(count),
                                             c.byref(to.op)))

    def end_many(self) -> dict:
        return collections.Counter(outcome(one.wait) for one in self.started)

    def join(self, *parts: Allocation) -> Allocation:
        handles = (c.c_void_p * max(len(parts), 1))(*[part.handle for part in parts])
        handle = c.c_void_p()
        check(lib().ocm_allocation_join(self.handle, handles, len(parts), c.byref(handle)))
        return Allocation(handle)

    def attach(self, name: str, access: str = "rw") -> Allocation:
        handle = c.c_void_p()
        bits = {"r": 1, "rw": 3, "r+hold": 5, "rw+hold": 7}[access]
        check(lib().ocm_allocation_attach(self.handle, name.encode(), bits, c.byref(handle)))
        return Allocation(handle)

    def remove(self, name: str):
        check(lib().ocm_name_remove(self.handle, name.encode()))

    def names(self, prefix: str = "") -> dict:
        out = {}

        def visit(info, _):
            i = info.contents
            out[i.name.decode()] = {"bytes": i.bytes, "layout": i.layout, "extents": i.extents, "lost": i.lost,
                                    "mode": i.mode}
            return True
        check(lib().ocm_name_list(self.handle, prefix.encode(), NAME_VISIT(visit), None))
        return out

    def event(self, deadline_s: float = 1e9) -> dict | None:
        """The next one; None: nothing until then."""
        event = Event(size=c.sizeof(Event))
        code = lib().ocm_event_next(self.handle, max(1, int(deadline_s * 1e9)), c.byref(event))
        if lib().ocm_status_name(code) == b"DEADLINE":
            return None
        check(code)
        return {"kind": EVENTS[event.kind], "allocation": bytes(event.allocation).hex(), "name": event.name.decode(),
                "node": event.node.decode(), "partition": event.partition}

    def event_of(self, kind: str, deadline_s: float = 30) -> dict | None:
        """The next of this kind; others are passed over."""
        give_up = time.monotonic() + deadline_s
        while (event := self.event(give_up - time.monotonic())) is not None:
            if event["kind"] == kind:
                return event
        return None

    def events(self, deadline_s: float) -> list:
        """All until there is none for so long."""
        out = []
        while (event := self.event(deadline_s)) is not None:
            out.append(event)
        return out

    def nodes(self) -> dict:
        out = {}

        def visit(info, _):
            i = info.contents
            out[i.name.decode()] = {"state": STATES.get(i.state, i.state), "pool": i.pool_bytes[0], "self": i.self,
                                    "used": i.used_bytes[0], "coordinator": i.coordinator, "sessions": i.sessions,
                                    "extents": i.extents, "partition": i.partition}
            return True
        check(lib().ocm_node_list(self.handle, NODE_VISIT(visit), None))
        return out

    def close(self):
        check(lib().ocm_session_close(self.handle))
