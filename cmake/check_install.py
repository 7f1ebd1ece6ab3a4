"""Installs the build into an empty folder and builds programs against that: C by pkg-config, C++ by CMake.
They run, with a node inside themselves. Then the tree is moved and they run again from there.

Usage: check_install.py CMAKE BUILD_FOLDER CC CXX SANITIZERS
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

C_PROGRAM = r"""
#include <oncilla/oncilla.h>
#include <stdio.h>
#include <string.h>
int main(void) {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  ocm_session *session;
  ocm_allocation *memory;
  char back[6] = "";
  options.flags = OCM_SESSION_EMBEDDED;
  if (ocm_session_open(&options, &session) < 0 || ocm_allocation_create(session, 1 << 20, NULL, &memory) < 0 ||
      ocm_put(memory, 4096, "hello", 6) < 0 || ocm_get(memory, 4096, back, 6) < 0) {
    fprintf(stderr, "%s\n", ocm_last_error());
    return 1;
  }
  if (strcmp(back, "hello") != 0) return 2;
  return ocm_session_close(session) < 0 ? 3 : 0;
}
"""
CMAKE_LISTS = """
cmake_minimum_required(VERSION 3.20)
project(user C)
find_package(oncilla REQUIRED)
add_executable(user main.c)
target_link_libraries(user PRIVATE oncilla::oncilla)
"""
EXPECTED = [
    "bin/ocm", "sbin/oncillad", "include/oncilla/fabrics.h", "include/oncilla/kinds.h", "include/oncilla/oncilla.h",
    "include/oncilla/oncilla.hpp", "include/oncillamem.h",
    "share/man/man1/ocm.1", "share/man/man8/oncillad.8", "share/man/man5/oncillad.toml.5", "share/man/man7/oncilla.7",
    "share/man/man3/ocm_put.3", "share/bash-completion/completions/ocm", "share/zsh/site-functions/_ocm",
    "share/fish/vendor_completions.d/ocm.fish", "lib/systemd/system/oncillad.service", "lib/sysusers.d/oncilla.conf",
]


def run(command: list[str], **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(cmake: str, build: str, cc: str, cxx: str, sanitizers: str, work: pathlib.Path) -> None:
    tree = work / "tree"
    run([cmake, "--install", build, "--prefix", str(tree)])
    missing = [name for name in EXPECTED if not (tree / name).exists()]
    if not shutil.which("scdoc"):
        missing = [name for name in missing if "/man" not in name or "/man3/" in name]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")
    unit = (tree / "lib/systemd/system/oncillad.service").read_text()
    if f"ExecStart={tree}/sbin/oncillad --config" not in unit:
        sys.exit(f"the unit does not name the installed daemon:\n{unit}")
    moved = work / "elsewhere"
    shutil.move(tree, moved)
    package = next(moved.glob("lib*/**/pkgconfig/oncilla.pc"))
    library = package.parent.parent
    environment = os.environ | {"PKG_CONFIG_PATH": str(package.parent), "LD_LIBRARY_PATH": str(library)}
    source = work / "main.c"
    source.write_text(C_PROGRAM)
    flags = run(["pkg-config", "--cflags", "--libs", "oncilla"], env=environment).split()
    sanitize = [f"-fsanitize={sanitizers}"] if sanitizers else []
    run([cc, "-Wall", "-Werror", *sanitize, str(source), *flags, "-o", str(work / "program")])
    run([str(work / "program")], env=environment)
    print("a C program builds by pkg-config and runs")
    (work / "CMakeLists.txt").write_text(CMAKE_LISTS)
    linker = [f"-DCMAKE_C_FLAGS={sanitize[0]}"] if sanitize else []
    run([cmake, "-S", str(work), "-B", str(work / "build"), f"-DCMAKE_PREFIX_PATH={moved}", f"-DCMAKE_C_COMPILER={cc}",
         *linker])
    run([cmake, "--build", str(work / "build")])
    run([str(work / "build" / "user")], env=environment)
    print("a CMake project builds by find_package and runs")
    plain = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    print(run([str(moved / "bin" / "ocm"), "--version"], env=plain).strip(), "runs from the moved tree")
    run([str(moved / "sbin" / "oncillad"), "--version"], env=plain)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ocm-install-") as work:
        cmake, build, cc, cxx, sanitizers = sys.argv[1:6]
        check(cmake, build, cc, cxx, sanitizers, pathlib.Path(work))
    return 0


if __name__ == "__main__":
    sys.exit(main())
