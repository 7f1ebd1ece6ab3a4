"""Memory larger than memory: a numpy array on a device of the cluster, in pages that the nodes cache.

A node must offer storage ([offer.nvme] in oncillad.toml). Programs on other nodes that attach the name see each store
at once, through pointers as through get().
"""
import numpy as np

import oncilla

with oncilla.connect(embedded="fallback") as session:
    try:
        block = session.allocate(32 << 20, kind="nvme")
    except oncilla.Error as error:
        print("this needs a node that offers storage:", error)
    else:
        numbers = np.frombuffer(block, dtype=np.uint64)  # copies nothing: pages come when they are touched
        numbers[:] = np.arange(len(numbers), dtype=np.uint64)[::-1]
        numbers.sort()
        assert numbers[0] == 0 and numbers[-1] == len(numbers) - 1
        assert np.frombuffer(block.get(offset=8, nbytes=8), dtype=np.uint64)[0] == 1  # the same bytes
        block.put_from(np.array([7], dtype=np.uint64), offset=0)
        assert numbers[0] == 7
        print(f"{len(numbers):,} numbers sorted where they lie")
        del numbers  # before its memory goes
        block.free()
