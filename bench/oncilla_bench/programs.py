"""Every process of a run: started in a group of its own, with a deadline, and ended at the latest by close()."""
import atexit
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

_running: set[subprocess.Popen] = set()
_bounds = {"end_at": None, "each_s": 60.0}


def bound(end_at, each_s=60.0):
    """No program runs past the moment `end_at` of time.monotonic() (None: no such moment) or longer than `each_s`."""
    _bounds.update(end_at=end_at, each_s=each_s)


class Failed(Exception):
    """A program did not do its work; the text is one line for the table of reasons."""


def end(process):
    """The whole group, at first gently."""
    for number, patience_s in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    _running.discard(process)


def start(command, env=None, log=None, stdin=subprocess.DEVNULL):
    with open(log, "ab") if log else contextlib.nullcontext(subprocess.DEVNULL) as output:
        try:
            process = subprocess.Popen([str(part) for part in command], env={**os.environ, **(env or {})}, stdin=stdin,
                                       stdout=output, stderr=output, start_new_session=True)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from None
    _running.add(process)
    return process


@contextlib.contextmanager
def server(command, env=None, log=None):
    """Runs beside the block; its standard input is open until the block ends."""
    process = start(command, env, log, stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
        end(process)


def run(command, env=None, deadline_s=None):
    """The standard output of a program that ended well."""
    deadline_s = deadline_s or _bounds["each_s"]
    if _bounds["end_at"] is not None:
        deadline_s = min(deadline_s, max(1.0, _bounds["end_at"] - time.monotonic()))
    try:
        process = subprocess.Popen([str(part) for part in command], env={**os.environ, **(env or {})},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", start_new_session=True)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None
    _running.add(process)
    try:
        output, errors = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        raise Failed(f"{pathlib.Path(str(command[0])).name} took more than {deadline_s:.0f} s") from None
    finally:
        end(process)
    if process.returncode != 0:
        lines = [line for line in errors.strip().splitlines() if line.strip(" -=")]
        lines = list(dict.fromkeys(lines))[-2:]
        raise Failed("; ".join(line[:160] for line in lines) if lines else f"ended with {process.returncode}")
    return output


def measurements(output):
    """The JSON lines of measure.h in a program's output."""
    results = []
    for line in output.splitlines():
        if line.startswith("{"):
            with contextlib.suppress(json.JSONDecodeError):
                results.append(json.loads(line))
    if not results:
        raise Failed("it printed no result")
    return results


def wait_for(what, condition, deadline_s=10.0):
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(0.01)


@atexit.register
def close():
    for process in list(_running):
        end(process)


def run_to_end(work):
    """work.run(), and whatever ends it, Ctrl-C and signals too, work.close() and an end of all programs."""
    def stop(number, frame):
        raise SystemExit(128 + number)  # so that everything is closed
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
    try:
        work.run()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        work.close()
        close()
