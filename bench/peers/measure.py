"""The timing of measure.h, for peers whose interface is Python.

`operation()` performs one complete operation; results are JSON lines on stdout.
"""
import json
import statistics
import time


def measure(name, size_bytes, operation, seconds):
    sample_seconds = seconds / 32
    operation()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            operation()
        took = time.perf_counter() - start
        if took >= sample_seconds:
            break
        count = count * 8 if took < sample_seconds / 16 else int(count * sample_seconds / took * 1.1) + 1
    samples = []
    end = time.perf_counter() + seconds
    while len(samples) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(count):
            operation()
        samples.append((time.perf_counter() - start) / count * 1e6)
    print(json.dumps({"op": name, "bytes": size_bytes, "us": statistics.median(samples),
                      "us_min": min(samples), "us_max": max(samples), "n": len(samples) * count}),
          flush=True)


def arguments(argv):
    """--name value pairs of a peer program, with the sizes and the seconds parsed."""
    values = {argv[i][2:]: argv[i + 1] for i in range(len(argv) - 1) if argv[i].startswith("--")}
    sizes = [int(size) for size in values.get("sizes", "64,4096,1048576,67108864").split(",")]
    return values, sizes, float(values.get("seconds", "0.2"))
