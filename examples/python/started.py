"""Operations that go on while the program does something else. Runs alone or on a cluster."""
import oncilla

with oncilla.connect(embedded="fallback") as session:
    inbox = session.allocate(1 << 16, zero=True, dedicated=True)  # the word at 0 counts what has come
    news = inbox.start_wait_at_least(0, 1)  # no thread waits for it
    sent = inbox.start_put_notify(b"hello", offset=8, notify_offset=0)
    print("the sum of what is computed meanwhile:", sum(range(100_000)))
    assert sent.wait() == 5 and news.wait(deadline_s=10) == 1
    print(inbox.start_get(8, 5).wait().decode())
    more = inbox.start_wait_at_least(0, 100)
    more.cancel()
    try:
        more.wait()
    except oncilla.Cancelled as why:
        print("given up:", why)
