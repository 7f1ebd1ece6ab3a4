"""A program under test: reads one JSON command a line, runs it against the C ABI, answers one JSON line.

    {"do": "open", "args": [PATH, DEADLINE_S]}   {"do": "become", "args": [UID]}: another user, for good
    {"do": "call", "on": "a", "method": "put", "args": [...]}   bytes travel as {"hex": "..."}
"""
import json
import os
import random
import sys
import time

import ocmlib


def decode(value):
    if isinstance(value, dict) and "hex" in value:
        return bytes.fromhex(value["hex"])
    if isinstance(value, dict) and "object" in value:
        return objects[value["object"]]
    if isinstance(value, dict) and "pattern" in value:
        return pattern(*value["pattern"])
    return value


def encode(value):
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def pattern(seed: int, count: int) -> bytes:
    return random.Random(seed).randbytes(count)


objects: dict = {}


def run(command: dict):
    args = [decode(a) for a in command.get("args", [])]
    kwargs = {k: decode(v) for k, v in command.get("kwargs", {}).items()}
    if command["do"] == "become":
        ocmlib.lib()  # its file may be the first user's
        os.setgroups([])
        os.setresgid(*args * 3)
        os.setresuid(*args * 3)
        return None
    if command["do"] == "open":
        objects["session"] = ocmlib.Session(*args, **kwargs)
        return None
    target = objects[command["on"]]
    if command["do"] == "check":  # compares without sending the bytes back
        offset, seed, count = args
        return target.get(offset, count) == pattern(seed, count)
    result = getattr(target, command["method"])(*args, **kwargs)
    if isinstance(result, ocmlib.Allocation):
        objects[command["as"]] = result
        return None
    return result


def main():
    for line in sys.stdin:
        began = time.monotonic()
        try:
            answer = {"result": encode(run(json.loads(line)))}
        except ocmlib.OcmError as error:
            answer = {"error": error.name, "detail": error.detail, "node": error.node, "subject": error.subject}
        except Exception as error:  # a fault of the test itself: shown whole
            answer = {"fault": repr(error)}
        answer["seconds"] = time.monotonic() - began
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
