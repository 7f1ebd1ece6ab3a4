"""What goes on by itself: each call of an allocation as an operation that was started, and as an awaitable."""
from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from .. import _core
from .shown import shown_in

if TYPE_CHECKING:
    from ..session import Session


class Operation(_core.Operation):
    """An operation under way: what the `start_...` methods give. It goes on without calls, in a thread of the session;
    `await` it, or `wait()`. Its buffers are in use until it is done. One that nobody refers to any more is cancelled.
    """

    def __init__(self, plan: _core.Plan) -> None:
        """Made by `Allocation.start_get()`, and so on."""
        super().__init__(plan)

    def __await__(self) -> Generator[Any, None, Any]:
        """Its result, as `wait()`; a task that is cancelled cancels it. Of one event loop."""
        from .aio import completed
        return completed(self).__await__()


shown_in("oncilla.operations", Operation)


def started(plan: _core.Plan) -> Operation:
    """The operation, begun. Raises what kept it from being begun."""
    operation = Operation(plan)
    operation._begin()
    if operation.done():
        operation._result()
    return operation


async def see_through(session: Session, plan: _core.Plan) -> Any:
    """Begins it, and gives its result once it is done. asyncio is loaded where it is used."""
    from .aio import see_through
    return await see_through(session, Operation(plan))


class Started(_core.Allocation):
    """The forms that return at once, with an `Operation`. They raise what the plain call raises for wrong arguments;
    what fails later, its `wait()` raises. Starting connects to the node of the bytes if necessary."""

    def start_get(self, offset: int = 0, nbytes: int | None = None) -> Operation:
        """`get()`, only started; its result is the bytes."""
        return started(self._plan_get(offset, nbytes))

    def start_get_into(self, buffer: Any, offset: int = 0) -> Operation:
        """`get_into()`, only started. `buffer` is written until it is done; its result is the number of bytes."""
        return started(self._plan_get_into(buffer, offset))

    def start_put_from(self, buffer: Any, offset: int = 0) -> Operation:
        """`put_from()`, only started. Leave `buffer` as it is until it is done; its result is the number of bytes."""
        return started(self._plan_put_from(buffer, offset))

    def start_getv(self, pieces: Iterable[tuple[int, Any]]) -> Operation:
        """`getv()`, only started; its result is the number of bytes."""
        return started(self._plan_getv(pieces))

    def start_putv(self, pieces: Iterable[tuple[int, Any]]) -> Operation:
        """`putv()`, only started; its result is the number of bytes."""
        return started(self._plan_putv(pieces))

    def start_get_strided(self, buffer: Any, offset: int, stride: int, row_bytes: int) -> Operation:
        """`get_strided()`, only started; its result is the number of bytes. `stride`, `row_bytes`: bytes."""
        return started(self._plan_get_strided(buffer, offset, stride, row_bytes))

    def start_put_strided(self, buffer: Any, offset: int, stride: int, row_bytes: int) -> Operation:
        """`put_strided()`, only started; its result is the number of bytes. `stride`, `row_bytes`: bytes."""
        return started(self._plan_put_strided(buffer, offset, stride, row_bytes))

    def start_put_notify(self, buffer: Any, offset: int, notify_offset: int, value: int = 1) -> Operation:
        """`put_notify()`, only started; its result is the number of bytes of `buffer`.

        Raises: Unsupported where the bytes and the word are not in one extent, or replicated.
        """
        return started(self._plan_put_notify(buffer, offset, notify_offset, value))

    def start_fetch_add(self, offset: int, operand: int) -> Operation:
        """`fetch_add()`, only started; its result is the value before. One that fails was not applied, unless it
        fails with PeerLost: then it may have been."""
        return started(self._plan_fetch_add(offset, operand))

    def start_swap(self, offset: int, operand: int) -> Operation:
        """`swap()`, only started: see `start_fetch_add()`."""
        return started(self._plan_swap(offset, operand))

    def start_fetch_and(self, offset: int, operand: int) -> Operation:
        """`fetch_and()`, only started: see `start_fetch_add()`."""
        return started(self._plan_fetch_and(offset, operand))

    def start_fetch_or(self, offset: int, operand: int) -> Operation:
        """`fetch_or()`, only started: see `start_fetch_add()`."""
        return started(self._plan_fetch_or(offset, operand))

    def start_fetch_xor(self, offset: int, operand: int) -> Operation:
        """`fetch_xor()`, only started: see `start_fetch_add()`."""
        return started(self._plan_fetch_xor(offset, operand))

    def start_compare_swap(self, offset: int, expected: int, desired: int) -> Operation:
        """`compare_swap()`, only started: see `start_fetch_add()`."""
        return started(self._plan_compare_swap(offset, expected, desired))

    def start_wait_at_least(self, offset: int, value: int, deadline_s: float | None = None) -> Operation:
        """`wait_at_least()`, only started; its result is the value read. It keeps no thread of yours: the session's
        own looks at the word up to a thousand times a second. Its `cancel()` gives up.

        It ends with DeadlineExceeded after `deadline_s` seconds, with Revoked when the allocation is freed, and with
        Cancelled when the session is closed.
        """
        return started(self._plan_wait_at_least(offset, value, deadline_s))


class Awaited(Started):
    """The forms for asyncio. Each awaits its end: see `oncilla.aio` for threads and cancellation."""

    session: Session

    async def aget(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """`get()` for asyncio: see `oncilla.aio` for threads and cancellation."""
        return await see_through(self.session, self._plan_get(offset, nbytes))

    async def aget_into(self, buffer: Any, offset: int = 0) -> int:
        """`get_into()` for asyncio. Once it has returned or raised, nothing writes to `buffer`."""
        return await see_through(self.session, self._plan_get_into(buffer, offset))

    async def aput_from(self, buffer: Any, offset: int = 0) -> int:
        """`put_from()` for asyncio. Once it has returned or raised, nothing reads `buffer`."""
        return await see_through(self.session, self._plan_put_from(buffer, offset))

    async def agetv(self, pieces: Iterable[tuple[int, Any]]) -> int:
        """`getv()` for asyncio."""
        return await see_through(self.session, self._plan_getv(pieces))

    async def aputv(self, pieces: Iterable[tuple[int, Any]]) -> int:
        """`putv()` for asyncio."""
        return await see_through(self.session, self._plan_putv(pieces))

    async def aget_strided(self, buffer: Any, offset: int, stride: int, row_bytes: int) -> int:
        """`get_strided()` for asyncio. Returns the bytes moved."""
        return await see_through(self.session, self._plan_get_strided(buffer, offset, stride, row_bytes))

    async def aput_strided(self, buffer: Any, offset: int, stride: int, row_bytes: int) -> int:
        """`put_strided()` for asyncio. Returns the bytes moved."""
        return await see_through(self.session, self._plan_put_strided(buffer, offset, stride, row_bytes))

    async def aput_notify(self, buffer: Any, offset: int, notify_offset: int, value: int = 1) -> int:
        """`put_notify()` for asyncio. Returns the bytes of `buffer`."""
        return await see_through(self.session, self._plan_put_notify(buffer, offset, notify_offset, value))

    async def afetch_add(self, offset: int, operand: int) -> int:
        """`fetch_add()` for asyncio. One that is cancelled may be applied all the same."""
        return await see_through(self.session, self._plan_fetch_add(offset, operand))

    async def aswap(self, offset: int, operand: int) -> int:
        """`swap()` for asyncio: see `afetch_add()`."""
        return await see_through(self.session, self._plan_swap(offset, operand))

    async def afetch_and(self, offset: int, operand: int) -> int:
        """`fetch_and()` for asyncio: see `afetch_add()`."""
        return await see_through(self.session, self._plan_fetch_and(offset, operand))

    async def afetch_or(self, offset: int, operand: int) -> int:
        """`fetch_or()` for asyncio: see `afetch_add()`."""
        return await see_through(self.session, self._plan_fetch_or(offset, operand))

    async def afetch_xor(self, offset: int, operand: int) -> int:
        """`fetch_xor()` for asyncio: see `afetch_add()`."""
        return await see_through(self.session, self._plan_fetch_xor(offset, operand))

    async def acompare_swap(self, offset: int, expected: int, desired: int) -> int:
        """`compare_swap()` for asyncio: see `afetch_add()`."""
        return await see_through(self.session, self._plan_compare_swap(offset, expected, desired))

    async def await_at_least(self, offset: int, value: int, deadline_s: float | None = None) -> int:
        """`wait_at_least()` for asyncio: it keeps no thread, and the event loop sleeps. The session's own thread looks
        at the word up to a thousand times a second. Raises: as `start_wait_at_least()`."""
        return await see_through(self.session, self._plan_wait_at_least(offset, value, deadline_s))
