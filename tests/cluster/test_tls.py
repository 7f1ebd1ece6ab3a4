"""TLS: daemons prove themselves by certificate and token, programs by their session's key alone."""
import os
import shutil
import subprocess

import pytest

from harness import wait_for
from ocmlib import OcmError, find_binary

MIB = 1 << 20


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=30)


def make_ca(folder, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem")
    (folder / f"{name}.pem").chmod(0o644)


def make_certificate(folder, ca, name):
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr")
    openssl("x509", "-req", "-in", folder / f"{name}.csr", "-CA", folder / f"{ca}.pem", "-CAkey", folder / f"{ca}.key",
            "-CAcreateserial", "-days", "2", "-out", folder / f"{name}.pem")
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
    make_certificate(folder, "theirs", "stranger")
    return folder


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


def test_programs_without_a_key_put_get_copy_and_attach(tls_cluster):
    moves_bytes(tls_cluster)


def test_programs_may_have_a_certificate_of_their_own(make_cluster, certificates):
    cluster = start(make_cluster(start=False), certificates,
                    ["--tls-client-cert", certificates / "program.pem", "--tls-client-key", certificates / "program.key"])
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
        return subprocess.run([str(find_binary("oncillad")), "--run-dir", str(tmp_path), "--check-config", "--token-file",
                               str(token), *map(str, extra)], capture_output=True, text=True, timeout=20)
    good = flags(certificates, "ours", "n1")
    assert check(*good).returncode == 0
    mixed = check(*good[:4], "--tls-key", certificates / "n2.key")
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
