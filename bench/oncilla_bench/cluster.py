"""Two daemons on one network: n1, which the measured program talks to, and n2, which holds remote memory."""
import contextlib
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from . import paths, programs

# A budget, not memory: pages are taken at first touch, and 1 GiB at most is touched. A daemon offers no more than
# there is.
DRAM_BYTES = min(128 << 30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


class Cluster:
    def __init__(self, network):
        if not paths.oncillad().exists() or not paths.ocm_bench().exists():
            raise programs.Failed("oncillad or ocm_bench is not built")
        self.network = network
        # Socket paths are limited to 107 bytes, hence not below the tree.
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ocmbench-"))
        self.processes = []
        self.logs = [paths.WORK / f"{network.name}-n{i}.log" for i in (1, 2)]
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self):
        token = self.directory / "token"
        token.touch(mode=0o600)
        token.write_text(os.urandom(32).hex())
        ports = _ports(self.network)
        coordinator = f"{self.network.addresses[0]}:{ports[0]}"
        for index, place in enumerate("ab"):
            run_dir = self.directory / f"n{index + 1}"
            run_dir.mkdir()
            host = self.network.addresses[index]
            control, data, http = (f"{host}:{port}" for port in ports[3 * index:3 * index + 3])
            self.logs[index].write_bytes(b"")
            self.processes.append(programs.start(self.network.at(place, [
                paths.oncillad(), "--node-name", f"n{index + 1}", "--run-dir", run_dir, "--control-listen", control,
                "--data-listen", data, "--http-listen", http, "--coordinator", coordinator, "--token-file", token,
                "--dram", str(DRAM_BYTES)]), log=self.logs[index]))
        for index in range(2):
            programs.wait_for(f"n{index + 1} listens: {self._last_line(index)}",
                              lambda index=index: self._listens(index), 15)
        self._wait_for_both()

    def _listens(self, index):
        self._all_run()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(self.socket(index)))
            return True
        return False

    def _all_run(self):
        for index, process in enumerate(self.processes):
            if process.poll() is not None:
                raise programs.Failed(
                    f"oncillad n{index + 1} ended with {process.returncode}: {self._last_line(index)}")

    def _wait_for_both(self):
        """The first extent on the other node can be had: the two know each other."""
        end = time.monotonic() + 15
        while True:
            try:
                return self.bench("tcp", [64], 0.001, deadline_s=10)
            except programs.Failed:
                self._all_run()
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def _last_line(self, index):
        text = self.logs[index].read_text(errors="replace").strip() if self.logs[index].exists() else ""
        return text.splitlines()[-1][:160] if text else "no log"

    def socket(self, index):
        return self.directory / f"n{index + 1}" / "oncillad.sock"

    def bench(self, mode, sizes=(64,), seconds=0.2, extra=(), deadline_s=None):
        """Runs ocm_bench beside n1."""
        try:
            output = programs.run(self.network.at("a", [
                paths.ocm_bench(), mode, "--sizes", ",".join(map(str, sizes)), "--seconds", seconds, *extra]),
                {"OCM_SOCKET": str(self.socket(0))}, deadline_s)
        except programs.Failed:
            self._all_run()  # a daemon that ended is the better reason
            raise
        return programs.measurements(output)

    def idle(self, seconds):
        """The share of a core in percent and the resident MiB of the busier daemon while nothing happens."""
        before, start = [_cpu_ns(p.pid) for p in self.processes], time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - start
        after = [_cpu_ns(p.pid) for p in self.processes]
        percent = max(b - a for a, b in zip(before, after)) / 1e9 / took * 100
        resident_mib = max(_resident_kib(p.pid) for p in self.processes) / 1024
        return percent, resident_mib

    def close(self):
        for process in self.processes:
            programs.end(process)
        shutil.rmtree(self.directory, ignore_errors=True)


def descriptors_max():
    """How many file descriptors a daemon that we start can have: an extent takes one while there are enough."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        system = int(pathlib.Path("/proc/sys/fs/nr_open").read_text())
        raised = subprocess.run([sys.executable, "-c", "import resource as r;"
                                 f"r.setrlimit(r.RLIMIT_NOFILE, ({system}, {system}))"], capture_output=True)
        return system if raised.returncode == 0 else hard
    except OSError:
        return hard


def _cpu_ns(pid):
    """Over all threads, from the scheduler, which is finer than clock ticks."""
    total = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((thread / "schedstat").read_text().split()[0])
    return total


def _resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def _ports(network):
    if network.name != "loopback":
        return range(7600, 7606)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(6)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
