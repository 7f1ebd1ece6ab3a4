"""A soak of mixed operations over three nodes that checks every byte against a shadow copy.

Bounded by operations, not by time; OCM_SOAK_OPS and OCM_SOAK_SEED change it, and a failure prints its seed.
"""
import os
import random

import ocmlib

MIB = 1 << 20


def test_mixed_operations_match_the_shadow_copy(shared):
    seed = int(os.environ.get("OCM_SOAK_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"OCM_SOAK_SEED={seed}")
    rng = random.Random(seed)
    sessions = [ocmlib.Session(str(node.socket_path)) for node in shared.nodes]
    live: list[tuple[ocmlib.Allocation, bytearray, bool, ocmlib.Session]] = []
    for step in range(int(os.environ.get("OCM_SOAK_OPS", 3000))):
        roll = rng.random()
        where = f"seed {seed} step {step}"
        if len(live) < 3 or (roll < 0.05 and len(live) < 24):
            layout = rng.choice(["single", "striped", "replicated"])
            size = rng.choice([rng.randint(1, 4096), rng.randint(1, 64 << 10), rng.randint(1, 3 * MIB)])
            kwargs: dict = {"layout": layout}
            if layout == "striped":
                kwargs["chunk"] = rng.choice([64, 4096, 65536])
            if layout == "single" and rng.random() < 0.7:
                kwargs["nodes"] = [rng.choice(["n1", "n2", "n3"])]
            session = rng.choice(sessions)
            live.append((session.alloc(size, flags=ocmlib.ZERO, **kwargs), bytearray(size), layout == "replicated",
                         session))
        elif roll < 0.08 and len(live) > 3:
            a = live.pop(rng.randrange(len(live)))[0]
            a.free()
        else:
            a, shadow, replicated, session = rng.choice(live)
            count = min(len(shadow), rng.choice([8, rng.randint(1, 512), rng.randint(1, 1 * MIB)]))
            offset = rng.randrange(len(shadow) - count + 1)
            if roll < 0.45:
                data = rng.randbytes(count)
                a.put(offset, data)
                shadow[offset:offset + count] = data
            elif roll < 0.8:
                assert a.get(offset, count) == shadow[offset:offset + count], where
            elif roll < 0.9 and not replicated and len(shadow) >= 8:
                word = 8 * rng.randrange(len(shadow) // 8)
                value = rng.randrange(1 << 64)
                old = int.from_bytes(shadow[word:word + 8], "little")
                assert a.fetch_add(word, value) == old, where
                shadow[word:word + 8] = ((old + value) % (1 << 64)).to_bytes(8, "little")
            else:
                b, other, _, its_session = rng.choice(live)
                if b is a or its_session is not session:
                    continue
                n = min(count, len(other))
                to = rng.randrange(len(other) - n + 1)
                b.copy_from(to, a, offset, n)
                other[to:to + n] = shadow[offset:offset + n]
    for a, shadow, _, _ in live:
        assert a.get(0, len(shadow)) == bytes(shadow), f"seed {seed} at the end"
        a.free()
    for session in sessions:
        session.close()
