"""TLS: daemons prove themselves by certificate and token, programs by their session's key alone."""
import contextlib
import ctypes
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

import rawprogram
from harness import wait_for, works
from ocmlib import OcmError, find_binary
from test_hostile import address_of
from test_operator import metric
from test_strangers import LIMIT, many_descriptors  # noqa: F401

MIB = 1 << 20
SO_ATTACH_FILTER, SO_RCVBUFFORCE = 26, 33


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=30)


def make_ca(folder, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem")
    (folder / f"{name}.pem").chmod(0o644)


def make_certificate(folder, ca, name, common_name=None, sans="", days="2", usage=""):
    """In NAME.pem and NAME.key; `sans` such as "DNS:a,IP:10.0.0.1"; days "-1": it has expired."""
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={common_name or name}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr")
    (folder / f"{name}.ext").write_text((f"subjectAltName={sans}\n" if sans else "") +
                                        (f"extendedKeyUsage={usage}\n" if usage else ""))
    openssl("x509", "-req", "-in", folder / f"{name}.csr", "-CA", folder / f"{ca}.pem", "-CAkey", folder / f"{ca}.key",
            "-CAcreateserial", "-days", days, "-extfile", folder / f"{name}.ext", "-out", folder / f"{name}.pem")
    (folder / f"{name}.key").chmod(0o600)


def flags(folder, ca, name):
    return ["--tls-ca", folder / f"{ca}.pem", "--tls-cert", folder / f"{name}.pem", "--tls-key", folder / f"{name}.key"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    folder.chmod(0o755)
    for ca in ("ours", "theirs"):
        make_ca(folder, ca)
    for name in ("n1", "n2", "n3", "program"):
        make_certificate(folder, "ours", name)
    make_certificate(folder, "theirs", "stranger", common_name="n2")
    make_certificate(folder, "ours", "by-address", common_name="host", sans="IP:127.0.0.1")
    make_certificate(folder, "ours", "by-name", common_name="host", sans="DNS:elsewhere,DNS:n2")
    make_certificate(folder, "ours", "nameless", common_name="nobody in particular")
    make_certificate(folder, "ours", "no-dns-match", common_name="n2", sans="DNS:elsewhere")  # CN is not looked at then
    make_certificate(folder, "ours", "expired", common_name="n2", days="-1")
    for usage in ("serverAuth", "clientAuth"):
        make_certificate(folder, "ours", usage, common_name="n2", usage=usage)
    return folder


def make_short(folder, name, seconds):
    """A certificate of the cluster's authority that ends then: `openssl x509` counts in days."""
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr")
    (folder / "index.txt").touch()
    (folder / "ca.cnf").write_text(
        f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index.txt\nnew_certs_dir={folder}\nrand_serial=yes\n"
        "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
    ends = time.strftime("%y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
    openssl("ca", "-batch", "-config", folder / "ca.cnf", "-cert", folder / "ours.pem", "-keyfile", folder / "ours.key",
            "-in", folder / f"{name}.csr", "-out", folder / f"{name}.pem", "-enddate", ends, "-notext")
    (folder / f"{name}.key").chmod(0o600)


def start(cluster, certificates, extra=()):
    for node in cluster.nodes:
        node.start([*flags(certificates, "ours", node.name), *extra])
    for node in cluster.nodes:
        node.wait_ready()
    cluster.wait_members()
    return cluster


@pytest.fixture
def tls_cluster(make_cluster, certificates):
    return start(make_cluster(start=False), certificates)


def moves_bytes(cluster, at=("n1", "n3")):
    p, q = (cluster.program(cluster[name]) for name in at)
    a, b = p.alloc(3 * MIB, nodes=["n2"]), p.alloc(3 * MIB, nodes=["n3"])
    a.fill(0, 1, 3 * MIB)
    assert a.holds(0, 1, 3 * MIB)
    b.copy_from(0, a, 0, 3 * MIB)
    assert b.holds(0, 1, 3 * MIB)
    a.publish("shown", 0o606)
    assert q.attach("shown").holds(0, 1, 3 * MIB)
    for program in (p, q):
        program.close()


@contextlib.contextmanager
def overheard(cluster):
    """What the daemons' ports say and are told meanwhile, a list of packets: as who reads their network."""
    ports = [int(address.rsplit(":", 1)[1]) for node in cluster.nodes for address in (node.control, node.data)]
    rules = []  # classic BPF: IPv4 on Ethernet, no options; all of a packet of one of the ports, else nothing
    for offset in (34, 36):
        rules.append((0x28, 0, 0, offset))
        rules += [(0x15, 0, 0, port) for port in ports]
    rules = [(code, len(rules) - i if code == 0x15 else 0, 0, k) for i, (code, _, _, k) in enumerate(rules)]
    rules += [(6, 0, 0, 0), (6, 0, 0, 1 << 18)]
    program = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    buffer = ctypes.create_string_buffer(program)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(rules), ctypes.addressof(buffer)))
        tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 * MIB)  # heartbeats meanwhile would fill the usual one
        tap.bind(("lo", 0))
        heard: list = []
        yield heard
        tap.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                heard.append(tap.recv(1 << 18))


@pytest.mark.parametrize("tls", [False, True])
def test_who_reads_the_network_learns_capabilities_names_and_bytes_only_without_tls(make_cluster, certificates, tls):
    cluster = start(make_cluster(start=False), certificates) if tls else make_cluster()
    raw = rawprogram.RawProgram(cluster["n3"])
    raw.hello()
    program = cluster.program(cluster["n3"])
    with overheard(cluster) as heard:
        made = rawprogram.done(raw.call("allocate", bytes_total=MIB, nodes=["n2"]))["allocation"]
        a = program.alloc(4096, nodes=["n2"])
        a.put(0, b"some-bytes-of-a-program")
        a.publish("a-name-of-a-program")
    raw.close()
    traffic = b"|".join(heard)
    assert len(traffic) > 1000
    secrets = {"capability": made["extents"][0]["capability"], "name": b"a-name-of-a-program",
               "bytes": b"some-bytes-of-a-program"}
    assert {what: secret in traffic for what, secret in secrets.items()} == dict.fromkeys(secrets, not tls)


def test_programs_without_a_key_put_get_copy_and_attach(tls_cluster):
    moves_bytes(tls_cluster)


def test_programs_may_have_a_certificate_of_their_own(make_cluster, certificates):
    cluster = start(make_cluster(start=False), certificates,
                    ["--tls-client-cert", certificates / "program.pem",
                     "--tls-client-key", certificates / "program.key"])
    moves_bytes(cluster)


def test_programs_do_not_need_the_nodes_keys(make_cluster, certificates, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(certificates, own)
    cluster = start(make_cluster(start=False), own)
    for secret in ("n1.key", "n1.pem"):  # n1 has read them; its copies, which read them anew, are not asked for
        (own / secret).unlink()
    moves_bytes(cluster, ("n1", "n1"))


@pytest.mark.parametrize("how", ["plain", "another CA"])
def test_a_node_without_the_clusters_certificate_does_not_join(make_cluster, certificates, how):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    cluster["n1"].start(flags(certificates, "ours", "n1"))
    extra = [] if how == "plain" else flags(certificates, "theirs", "stranger")
    cluster["n2"].start(extra)  # with the right token
    for node in cluster.nodes:
        node.wait_ready()
    program = cluster.program(cluster["n1"])
    wait_for("n2 has tried", lambda: cluster["n2"].http_get("/metrics").count('what="failed"} ') and
             int(cluster["n2"].http_get("/metrics").split('what="failed"} ')[1].split()[0]) >= 3)
    assert set(program.nodes()) == {"n1"}
    with pytest.raises(OcmError):
        program.alloc(MIB, nodes=["n2"])


def test_tls_without_a_token_is_refused(certificates, tmp_path):
    result = subprocess.run([str(find_binary("oncillad")), "--run-dir", str(tmp_path), "--check-config",
                             *map(str, flags(certificates, "ours", "n1"))], capture_output=True, text=True, timeout=20)
    assert result.returncode == 2
    assert "token_file" in result.stderr


def test_check_config_reads_the_secrets(certificates, tmp_path):
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef")

    def check(*extra):
        return subprocess.run([str(find_binary("oncillad")), "--run-dir", str(tmp_path), "--check-config",
                               "--token-file", str(token), *map(str, extra)],
                              capture_output=True, text=True, timeout=20)
    good = ["--node-name", "n1", *flags(certificates, "ours", "n1")]
    assert check(*good).returncode == 0
    mixed = check(*good[:6], "--tls-key", certificates / "n2.key")
    assert mixed.returncode == 2 and "tls_key" in mixed.stderr
    token.chmod(0o644)
    if os.geteuid() == 0:
        token.chmod(0o640)
        assert check().returncode == 0  # root lets the daemon's group read it
        token.chmod(0o644)
    shown = check()
    assert shown.returncode == 2 and "chmod 0600" in shown.stderr
    token.chmod(0o600)
    token.write_text("short")
    assert check().returncode == 2


@pytest.mark.parametrize("certificate", ["by-address", "by-name"])
def test_a_certificate_with_the_nodes_name_or_address_is_good(make_cluster, certificates, certificate):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    cluster["n1"].start(flags(certificates, "ours", "n1"))
    cluster["n2"].start(flags(certificates, "ours", certificate))
    for node in cluster.nodes:
        node.wait_ready()
    cluster.wait_members(2)
    program = cluster.program(cluster["n1"])
    a = program.alloc(MIB, nodes=["n2"])
    a.fill(0, 1, MIB)
    assert a.holds(0, 1, MIB)


UNFIT = {  # what others would refuse, and the word that says why
    "expired": ("ours", "expired", "expired"),
    "of another authority": ("ours", "stranger", "issuer"),
    "of another node": ("ours", "n3", "neither name nor address of n2"),
    "without a name": ("ours", "nameless", "neither name nor address of n2"),
    "for servers only": ("ours", "serverAuth", "purpose"),
    "for clients only": ("ours", "clientAuth", "purpose"),
    "with other names": ("ours", "no-dns-match", "neither name nor address of n2"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_a_certificate_that_others_would_refuse_is_refused_at_start(make_cluster, certificates, what):
    ca, name, word = UNFIT[what]
    node = make_cluster(names=("n1", "n2"), start=False)["n2"]
    for extra in ((), ("--check-config",)):
        ended = subprocess.run([str(a) for a in node.arguments([*flags(certificates, ca, name), *extra])],
                               capture_output=True, text=True, timeout=20)
        assert ended.returncode == 2, ended.stderr
        assert word in ended.stderr and f"{name}.pem" in ended.stderr


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(make_cluster, certificates, tmp_path, mode):
    own = tmp_path / "own"
    shutil.copytree(certificates, own)
    (own / "n1.key").chmod(mode)
    node = make_cluster(names=("n1",), start=False)["n1"]
    ended = subprocess.run([str(a) for a in node.arguments(flags(own, "ours", "n1"))],
                           capture_output=True, text=True, timeout=20)
    assert ended.returncode == 2
    assert "tls_key" in ended.stderr and "chmod 0600" in ended.stderr


def in_logs(cluster, **words):
    """Waits until each node's log has all its words in one line."""
    for name, wanted in words.items():
        wait_for(f"{name} logs {wanted}",
                 lambda name=name, wanted=wanted: any(all(word in line for word in wanted)
                                                      for line in cluster[name].log().splitlines()))


def start_two(make_cluster, first, second):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    cluster["n1"].start(first)
    cluster["n2"].start(second)
    for node in cluster.nodes:
        node.wait_ready()
    return cluster


def test_both_ends_say_why_tls_failed(make_cluster, certificates):
    cluster = start_two(make_cluster, flags(certificates, "ours", "n1"), flags(certificates, "theirs", "stranger"))
    in_logs(cluster, n2=["peer_refused", "CN=n1", "certificate"], n1=["127.0.0.1", "unknown ca"])


@pytest.mark.parametrize("certificate", ["n3", "program"])
def test_a_node_with_anothers_certificate_does_not_join(make_cluster, certificates, certificate):
    """Node n3's certificate or a program's, and a daemon that does not check its own."""
    cluster = make_cluster(names=("n1", "n2"), start=False)
    cluster["n1"].start(flags(certificates, "ours", "n1")).wait_ready()
    refused = raw_hello(cluster, certificates, certificate, node="n2")
    assert "neither the name n2 nor the address 127.0.0.1" in refused
    in_logs(cluster, n1=["peer_refused", "n2", certificate])


def test_a_node_is_not_joined_at_an_address_that_its_certificate_does_not_name(make_cluster, certificates):
    """Nor is its name in it: who stands at that address may have the certificate from anywhere."""
    cluster = make_cluster(names=("n1", "n2"), start=False)
    cluster["n1"].start(flags(certificates, "ours", "by-address")).wait_ready()
    relay = PlainRelay(cluster["n1"].control)
    cluster["n2"].start([*flags(certificates, "ours", "n2"), "--coordinator", relay.address]).wait_ready()
    in_logs(cluster, n2=["peer_refused", "neither the name n1 nor the address 127.0.0.2"])
    assert set(cluster.program(cluster["n1"]).nodes()) == {"n1"}
    relay.close()


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(20)],
                         ids=["silent", "half a hello"])
def test_a_crowd_on_the_data_port_shuts_nobody_out(make_cluster, certificates, first):
    cluster = start(make_cluster(names=("n1", "n2"), start=False, extra=["--limit-connections", str(LIMIT)]),
                    certificates)
    with contextlib.ExitStack() as stack:
        for i in range(LIMIT + 100):
            stranger = stack.enter_context(socket.create_connection(address_of(cluster["n2"].data)))
            stranger.sendall(first)
            if i % 300 == 0:
                works(cluster)
        works(cluster)


def raw_hello(cluster, certificates, certificate, node):
    """The answer to NodeHello{node} over TLS with that certificate: its detail."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(certificates / "ours.pem")
    context.load_cert_chain(certificates / f"{certificate}.pem", certificates / f"{certificate}.key")
    host, port = cluster["n1"].control.rsplit(":", 1)
    message = rawprogram.encode("Envelope", {"id": 1, "node_hello": {
        "version": rawprogram.CONTROL_VERSION, "node": node, "nonce": bytes(16), "incarnation": bytes(16)}})
    with socket.create_connection((host, int(port)), timeout=10) as plain, context.wrap_socket(plain) as s:
        s.sendall(struct.pack("<I", len(message)) + message)
        reply = b""
        while len(reply) < 4 or len(reply) < 4 + struct.unpack("<I", reply[:4])[0]:
            piece = s.recv(65536)
            if not piece:
                break
            reply += piece
    return rawprogram.decode("Envelope", reply[4:])["detail"]


@pytest.mark.parametrize("end,says", [("n1", "speaks without TLS"), ("n2", "the peer speaks TLS")])
def test_tls_at_one_end_only_is_told_at_both(make_cluster, certificates, end, says):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    extra = {end: flags(certificates, "ours", end)}
    at = f"coordinator={cluster['n1'].control}"
    cluster["n2"].start(extra.get("n2", [])).wait_ready()
    in_logs(cluster, n2=[at, "Connection refused"])  # which does not keep the next reason out of the log
    cluster["n1"].start(extra.get("n1", [])).wait_ready()
    in_logs(cluster, n1=[says], n2=[at, "TLS"])


class PlainRelay(threading.Thread):
    """Stands between a client and a server, at another address, and passes every byte on."""

    def __init__(self, target, host="127.0.0.2"):
        super().__init__(daemon=True)
        target_host, port = target.rsplit(":", 1)
        self.target = target_host, int(port)
        self.listener = socket.create_server((host, 0))
        self.address = f"{host}:{self.listener.getsockname()[1]}"
        self.passed = {"up": 0, "down": 0}
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, plain):
        with contextlib.suppress(OSError, ValueError):
            inner, outer = self.both_ends(plain)
            back = threading.Thread(target=self.pump, args=(outer, inner, "down"), daemon=True)
            back.start()
            self.pump(inner, outer, "up")

    def both_ends(self, plain):
        return plain, socket.create_connection(self.target)

    def pump(self, source, target, way):
        with contextlib.suppress(OSError, ValueError):
            while piece := source.recv(65536):
                self.passed[way] += len(piece)
                target.sendall(piece)
        for s in (source, target):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Relay(PlainRelay):
    """Between a TLS client and a TLS server, with a certificate of its own of the same authority: what a program's
    machine could do with the certificate that it has."""

    def __init__(self, certificates, certificate, target):
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.client.check_hostname = False
        for context in (self.server, self.client):
            context.load_verify_locations(certificates / "ours.pem")
            context.load_cert_chain(certificates / f"{certificate}.pem", certificates / f"{certificate}.key")
        super().__init__(target, "127.0.0.1")

    def both_ends(self, plain):
        return (self.server.wrap_socket(plain, server_side=True),
                self.client.wrap_socket(socket.create_connection(self.target)))


def test_nobody_with_a_certificate_stands_between_two_daemons(make_cluster, certificates):
    """Even with a certificate for the address that the other is looking for: the proof is bound to the channel."""
    cluster = make_cluster(names=("n1", "n2"), start=False)
    cluster["n1"].start(flags(certificates, "ours", "n1")).wait_ready()
    relay = Relay(certificates, "by-address", cluster["n1"].control)
    cluster["n2"].start([*flags(certificates, "ours", "n2"), "--coordinator", relay.address]).wait_ready()
    wait_for("the relay has passed an answer on", lambda: relay.passed["down"] > 0)
    in_logs(cluster, n2=["peer_refused", "another cluster token"])
    assert set(cluster.program(cluster["n1"]).nodes()) == {"n1"}
    relay.close()


def test_a_certificate_that_ends_soon_is_told(make_cluster, tmp_path):
    """At the start, when it has ended, and as a metric; of one that is good for longer nothing is told."""
    make_ca(tmp_path, "ours")
    make_certificate(tmp_path, "ours", "n2", days="40")
    make_short(tmp_path, "n1", 10)
    now = time.time()
    [short], [good] = (start(make_cluster(names=(name,), start=False), tmp_path).nodes for name in ("n1", "n2"))
    assert re.search(r"warn certificate_expires certificate=\S*/n1.pem hours=0 ", short.log())
    assert now < metric(short, "oncilla_certificate_ends_seconds") < now + 12
    assert metric(good, "oncilla_certificate_ends_seconds") > now + 39 * 86400
    wait_for("it has ended", lambda: "error certificate_expired" in short.log(), 30)
    assert " certificate_" not in good.log()
