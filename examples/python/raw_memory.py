"""Memory of the cluster without tables: put, get, vectored, atomics, numpy. Runs alone or on a cluster."""
import numpy as np

import oncilla

with oncilla.connect(embedded="fallback") as session:
    block = session.allocate(1 << 20, dedicated=True, zero=True)
    block[0:5] = b"hello"
    assert block[0:5] == b"hello"

    numbers = np.arange(1000, dtype=np.float64)
    block.put_from(numbers, offset=4096)
    back = np.empty_like(numbers)
    block.get_into(back, offset=4096)
    assert np.array_equal(numbers, back)

    head, tail = bytearray(8), bytearray(8)
    block.getv([(4096, head), (4096 + 8 * 999, tail)])  # one window of operations
    assert np.frombuffer(tail, dtype=np.float64)[0] == 999.0

    assert block.fetch_add(8192 * 8, 5) == 0 and block.fetch_add(8192 * 8, 1) == 5
    try:
        block.get(offset=1 << 20, nbytes=1)
    except oncilla.OutOfRange as error:
        print("refused, as it should be:", error)
    print(session)
