"""Every message that a program or a node may send has a seed that reaches its handler: bodies.py TARGET...

Each target runs its seeds and tells which bodies of an Envelope were answered well, or taken for an answer.
"""
import subprocess
import sys

# That no program and no node sends to a daemon behind its doors.
NOT_SENT = {
    "session_welcome": "only a daemon sends it, to programs",
    "events_reply": "the same",
    "pages_mapped": "the same",
    "map_pages": "refused here, as these daemons cache nothing (tests/cluster/test_pointers.py)",
    "cacheable": "these daemons have no threads, and so cache nothing and ask nobody for it",
    "resize_cache": "refused here for the same reason (tests/cluster/test_cache_nodes.py)",
    "found_cluster": "refused here, as these daemons have no seeds (tests/cluster/test_succession.py)",
    "node_hello": "before the doors (node/proof.h): who sends it may be a stranger",
    "node_challenge": "its reply",
    "node_proof": "the same",
}


def main() -> int:
    reached: dict[str, bool] = {}
    for target in sys.argv[1:]:
        told = subprocess.run([target, "--tell"], check=True, capture_output=True, text=True).stdout
        for name, state in (line.split() for line in told.splitlines()):
            reached[name] = reached.get(name, False) or state == "reached"
    faults = [f"{name}: no seed reaches its handler" for name, is_reached in reached.items()
              if not is_reached and name not in NOT_SENT]
    faults += [f"{name}: reached, though listed as not sent ({why})" for name, why in NOT_SENT.items()
               if reached.get(name, True)]
    print("\n".join(faults) or f"{len(reached) - len(NOT_SENT)} bodies are reached")
    return 1 if faults or len(reached) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
