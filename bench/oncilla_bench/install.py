"""Gets the peers: Debian packages, Python packages in an environment of their own, programs built from bench/.

What cannot be had is noted with its reason, and the run goes on without it.
"""
import os
import shutil
import subprocess
import sys

from . import paths, programs

APT = {
    "mpirun": ("openmpi-bin", "libopenmpi-dev"),
    "ucx_perftest": ("ucx-utils", "libucx-dev"),
    "fi_info": ("libfabric-bin", "libfabric-dev"),
    "redis-server": ("redis-server",),
    "memcached": ("memcached",),
    "gnuplot": ("gnuplot-nox",),
}
# Without their dependencies: NIXL asks for torch, which its Python interface does not need for plain memory.
PIP = {"mooncake": "mooncake-transfer-engine-non-cuda==0.3.13.post1", "nixl_cu12": "nixl-cu12==1.5.1", "numpy": "numpy",
       "libucx": "libucx-cu12==1.22.0"}
# program: (source, compiler, libraries)
BUILT = {
    "memcpy_limit": ("memcpy_limit.c", "cc", ["-lpthread"]),
    "tcp_raw": ("tcp_raw.c", "cc", ["-DTCP_RAW_MAIN"]),
    "mpi_rma": ("peers/mpi_rma.c", "mpicc", []),
    "ucx_rma": ("peers/ucx_rma.c", "cc", ["-lucp", "-lucs"]),
    "ofi_rma": ("peers/ofi_rma.c", "cc", ["-lfabric"]),
    "kv_raw": ("peers/kv_raw.c", "cc", []),
}


def _installed(package):
    query = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True, text=True)
    return query.stdout == "installed"


def _apt(reasons):
    missing = [package for group in APT.values() for package in group if not _installed(package)]
    if not missing:
        return
    print(f"installing {' '.join(missing)}", flush=True)
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    env = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = [*sudo, "apt-get", "install", "-y", "-qq", "--no-install-recommends"]
    try:
        programs.run([*sudo, "apt-get", "update", "-qq"], env, 120)
        programs.run([*install, *missing], env, 240)
    except programs.Failed:
        for package in missing:  # one that cannot be had must not take the others with it
            try:
                programs.run([*install, package], env, 120)
            except programs.Failed as failure:
                reasons[package] = f"apt-get: {failure}"
    # We start our own when we measure; the services that came with the packages are not to run.
    for service in {"redis-server", "memcached"} & set(missing):
        if os.path.isdir("/run/systemd/system"):
            subprocess.run([*sudo, "systemctl", "disable", "--now", service], capture_output=True)


def _pip(reasons):
    python = paths.VENV / "bin" / "python"
    try:
        if not python.exists():
            programs.run([sys.executable, "-m", "venv", paths.VENV], None, 60)
        for module, package in PIP.items():
            found = subprocess.run([python, "-c", f"import importlib.util as u;exit(u.find_spec('{module}') is None)"])
            if found.returncode == 0:
                continue
            print(f"installing {package}", flush=True)
            try:
                programs.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps",
                              package], None, 240)
            except programs.Failed as failure:
                reasons[module] = f"pip: {failure}"
    except programs.Failed as failure:
        reasons.update(dict.fromkeys(PIP, f"venv: {failure}"))


def build(name, source, compiler, libraries, reasons):
    target = paths.WORK / name
    source = paths.BENCH / source
    newest = max(source.stat().st_mtime, (paths.BENCH / "measure.h").stat().st_mtime)
    if target.exists() and target.stat().st_mtime > newest:
        return
    if shutil.which(compiler) is None:
        reasons[name] = f"{compiler} is not here"
        return
    try:
        programs.run([compiler, "-O2", "-o", target, source, *libraries], None, 60)
    except programs.Failed as failure:
        reasons[name] = f"does not build: {failure}"


def install():
    """Program or Python module: why it is missing."""
    reasons: dict[str, str] = {}
    paths.WORK.mkdir(parents=True, exist_ok=True)
    _apt(reasons)
    _pip(reasons)
    for name, (source, compiler, libraries) in BUILT.items():
        build(name, source, compiler, libraries, reasons)
    for program in APT:
        if shutil.which(program) is None:
            reasons[program] = next((reasons[p] for p in APT[program] if p in reasons), "not installed")
    return reasons


def versions():
    """Of the peers, for the record: package: version."""
    packages = [package for group in APT.values() for package in group]
    query = subprocess.run(["dpkg-query", "-W", "-f=${Package} ${Version}\n", *packages], capture_output=True,
                           text=True)
    found = dict(line.split(" ", 1) for line in query.stdout.splitlines() if " " in line)
    found.update({package.split("==")[0]: package.split("==")[1] for package in PIP.values() if "==" in package})
    return found
