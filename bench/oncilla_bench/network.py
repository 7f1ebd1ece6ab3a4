"""The two networks that TCP is measured on: loopback, and two namespaces joined by veth.

A network has two places, a (the program) and b (the memory), each with an address and a command prefix.
"""
import os
import subprocess

from . import programs


class Loopback:
    name = "loopback"
    interface = "lo"
    addresses = ("127.0.0.1", "127.0.0.1")

    def at(self, place, command):
        return list(command)

    def close(self):
        pass


class Veth:
    name = "veth"
    interface = "veth0"
    addresses = ("10.78.0.1", "10.78.0.2")

    def __init__(self):
        tag = f"ocmbench-{os.getpid()}"
        self.namespaces = (f"{tag}-a", f"{tag}-b")
        if os.geteuid() != 0:
            raise programs.Failed("namespaces need root")
        try:
            for space in self.namespaces:
                _ip("netns", "add", space)
            a, b = self.namespaces
            _ip("link", "add", "veth0", "netns", a, "type", "veth", "peer", "name", "veth0", "netns", b)
            for space, address in zip(self.namespaces, self.addresses):
                _ip("-n", space, "addr", "add", f"{address}/24", "dev", "veth0")
                _ip("-n", space, "link", "set", "veth0", "up")
                _ip("-n", space, "link", "set", "lo", "up")
        except (OSError, subprocess.SubprocessError) as error:
            self.close()
            raise programs.Failed(f"no network namespaces here: {error}") from None

    def at(self, place, command):
        return ["ip", "netns", "exec", self.namespaces["ab".index(place)], *command]

    def close(self):
        """Ends what is left inside, which is ours alone, and removes the namespaces."""
        for space in self.namespaces:
            left = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True)
            for pid in left.stdout.split():
                subprocess.run(["kill", "-KILL", pid], capture_output=True)
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)
