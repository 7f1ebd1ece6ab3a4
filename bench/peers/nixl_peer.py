"""NIXL over its UCX backend: a prepared WRITE or READ, posted and polled to completion.

usage: nixl_peer.py server|client --meet FILE --sizes 64,4096 --seconds 0.2   (transports by UCX_TLS)

The server registers the memory and writes its agent metadata to the meeting file, then the client
does the same to FILE.client; the server ends when its standard input closes.
"""
import ctypes
import mmap
import os
import sys
import threading
import time

from nixl_cu12._api import nixl_agent, nixl_agent_config

from measure import arguments, measure


def publish(path, data):
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)


def fetch(path):
    deadline = time.monotonic() + 10
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            sys.exit("nixl: the other side did not start")
        time.sleep(0.01)
    return open(path, "rb").read()


def main():
    role = sys.argv[1]
    values, sizes, seconds = arguments(sys.argv)
    polls = values.get("progress", "thread") == "app"
    agent = nixl_agent(role, nixl_agent_config(enable_prog_thread=not polls, backends=["UCX"]))
    memory = mmap.mmap(-1, max(sizes))
    memory.write(b"\1" * max(sizes))
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    agent.register_memory([(address, max(sizes), 0, "")], "DRAM")
    if role == "server":
        publish(values["meet"] + ".address", str(address).encode())
        publish(values["meet"], agent.get_agent_metadata())
        agent.add_remote_agent(fetch(values["meet"] + ".client"))
        over = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
        while not over.is_set():
            if polls:
                agent.get_new_notifs()  # makes progress, as a polling target would
            else:
                over.wait()
    else:
        name = agent.add_remote_agent(fetch(values["meet"]))
        remote = int(fetch(values["meet"] + ".address"))
        publish(values["meet"] + ".client", agent.get_agent_metadata())
        for size in sizes:
            local_list = agent.get_xfer_descs([(address, size, 0)], "DRAM")
            remote_list = agent.get_xfer_descs([(remote, size, 0)], "DRAM")
            for operation, label in (("WRITE", "put"), ("READ", "get")):
                handle = agent.initialize_xfer(operation, local_list, remote_list, name)

                def run(handle=handle):
                    state = agent.transfer(handle)
                    while state == "PROC":
                        state = agent.check_xfer_state(handle)
                    if state != "DONE":
                        sys.exit(f"nixl: transfer ended as {state}")

                measure(label, size, run, seconds)
                agent.release_xfer_handle(handle)
    sys.stdout.flush()
    os._exit(0)


main()
