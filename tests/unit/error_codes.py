"""Every code of ocm_status has a test that provokes it: the code comes out of a running daemon, or out of the code that
decides it in production, and not out of a status that the test makes.

A new code fails here until PROVOKED names its test. The test must be there, and hold an assertion that only this code
fulfils: it names no other code, and is no negation.
"""
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "include/oncilla/oncilla.h"

# code: the test, and how it comes about there.
PROVOKED = {
    # An unknown flag, fabric, struct size.
    "INVALID_ARGUMENT": "tests/api/session_test.cpp::Opening.BadOptionsAreInvalid",
    # Puts and gets past the end, here and at another node.
    "OUT_OF_RANGE": "tests/cluster/test_memory.py::test_ranges_past_the_end_or_overflowing",
    # A word that nobody changes.
    "DEADLINE": "tests/api/atomic_test.cpp::Atomic.WaitEndsAtItsDeadline",
    # More copies of one user than a daemon lets wait.
    "QUEUE_FULL": "tests/cluster/test_users.py::test_a_user_has_a_bounded_number_of_copies_under_way",
    # A kind of memory that nobody offers.
    "UNSUPPORTED": "tests/cluster/test_memory.py::test_kinds_that_nobody_offers_are_named",
    # A name of 256 bytes.
    "TOO_LARGE": "tests/api/name_test.cpp::Name.BadNamesAreRefused",
    # A load's progress callback says stop.
    "CANCELLED": "tests/api/table_test.cpp::Table.ALoadThatFailsLeavesNothing",
    "POOL_FULL": "tests/cluster/test_memory.py::test_a_request_larger_than_the_pool_says_what_is_free_and_where",
    "NOT_FOUND": "tests/cluster/test_failures.py::test_an_error_names_its_node_and_its_subject_as_fields",
    # Two programs publish under one name.
    "EXISTS": "tests/cluster/test_memory.py::test_a_name_is_taken_once",
    "REVOKED": "tests/api/allocation_test.cpp::Allocation.FreedHandleIsRevoked",
    "PERMISSION": "tests/cluster/test_memory.py::test_read_only_attachment_is_enforced_here_and_there",
    # The file below a pool is cut off under its daemon.
    "LOST": "tests/cluster/test_nvme.py::test_a_device_that_loses_pages_is_told",
    "QUOTA": "tests/cluster/test_hostile.py::test_a_users_quota_is_held",
    "PEER_LOST": "tests/cluster/test_failures.py::test_a_killed_node_is_an_error_to_its_users_and_to_nobody_else",
    # A request before the session's hello.
    "PROTOCOL": "tests/unit/node_test.cpp::NodeTest.RequestsBeforeHelloAreRefused",
    # A session of another is taken up with a wrong key.
    "AUTH": "tests/unit/node_test.cpp::NodeTest.ASessionIsTakenUpAgainOnlyWithItsKeyAndNeverOnceItHasEnded",
    # A payload that does not match its checksum, sent to a home's server.
    "BAD_CHECKSUM": "tests/unit/tcp_hostile_test.cpp::TcpHostileTest.ABadPayloadChecksumIsRefused",
    "NO_DAEMON": "tests/api/session_test.cpp::Opening.WithoutADaemonSaysSo",
    # A daemon under RLIMIT_AS maps an extent.
    "NO_MEMORY": "tests/cluster/test_hostile.py::test_memory_that_the_system_does_not_have_is_an_error",
    # Extents of a daemon under RLIMIT_NOFILE, until it has no descriptor left for one.
    "NO_FDS": "tests/cluster/test_descriptors.py::test_a_daemon_out_of_descriptors_still_serves_its_operator",
    # The source of a load fails with errno EIO.
    "IO": "tests/api/table_test.cpp::Table.ALoadThatFailsLeavesNothing",
    # A daemon that was told to stop, and waits, is asked for memory by one that does not know.
    "DRAINING": "tests/cluster/test_stop.py::test_a_stop_that_takes_a_last_copy_waits_to_be_told_twice",
    "LIMIT": "tests/cluster/test_hostile.py::test_the_limit_on_sessions_is_an_error",
    # Two of three nodes are there, but not the one that founds the cluster.
    "NO_COORDINATOR": "tests/cluster/test_succession.py::test_without_the_seed_that_founds_the_others_wait_and_say_so",
    "UNKNOWN_NODE": "tests/cluster/test_memory.py::test_unknown_node",
    # fault.h, handler.throws: whoever answers a request in the daemon throws.
    "INTERNAL": "tests/unit/node_test.cpp::NodeTest.AFaultInARequestIsItsOwnErrorAndEndsNothing",
}


def codes(header: str) -> list:
    body = header[header.index("typedef enum ocm_status {"):header.index("} ocm_status;")]
    return re.findall(r"OCM_(\w+) = -\d+", body)


def test_body(file: str, test: str, text: str) -> str:
    """The text of a test, up to the next one; "" if it is not there."""
    if file.endswith(".py"):
        begins, found = r"^(?:def|class|@)", re.search(rf"^def {re.escape(test)}\(", text, re.M)
    else:
        suite, _, case = test.partition(".")
        begins = r"^(?:TEST|struct|class|\})"
        found = re.search(rf"^TEST(?:_[FP])?\({re.escape(suite)}, {re.escape(case)}\)", text, re.M)
    if found is None:
        return ""
    after = re.compile(begins, re.M).search(text, found.end())
    return text[found.start():after.start() if after else len(text)]


def names(text: str, code: str) -> bool:
    """Whether it says OCM_CODE, Code::kCode, "CODE" or CODE."""
    constant = "k" + "".join(word.capitalize() for word in code.split("_"))
    return re.search(rf"\b(?:OCM_{code}|Code::{constant}|{code})\b", text) is not None


def python_assertions(body: str) -> list:
    """Its assert statements and calls of fails(), but for those that say what is not so."""
    out = []
    for node in ast.walk(ast.parse(body)):
        if isinstance(node, ast.Assert):
            loose = (ast.NotEq, ast.NotIn, ast.IsNot, ast.Not, ast.Or)
            out += [] if any(isinstance(one, loose) for one in ast.walk(node.test)) else [ast.unparse(node.test)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "fails" and node.args:
            out.append(ast.unparse(node.args[0]))
    return out


def cpp_assertions(body: str) -> list:
    """The arguments of its EXPECT_EQ and ASSERT_EQ."""
    out = []
    for found in re.finditer(r"\b(?:EXPECT|ASSERT)_EQ\(", body):
        depth, at = 1, found.end()
        while depth > 0 and at < len(body):
            depth += {"(": 1, ")": -1}.get(body[at], 0)
            at += 1
        out.append(body[found.end():at - 1])
    return out


def asserts(file: str, body: str, code: str, known: list) -> bool:
    """Whether an assertion of the test holds with this code and with no other."""
    found = python_assertions(body) if file.endswith(".py") else cpp_assertions(body)
    return any(names(one, code) and not any(names(one, other) for other in known if other != code) for one in found)


def wrong(known: list, provoked: dict, read) -> list:
    out = [f"{code}: no test provokes it; name one in {pathlib.Path(__file__).name}" for code in known
           if code not in provoked]
    out += [f"{code}: ocm_status has no such code" for code in provoked if code not in known]
    for code, where in provoked.items():
        file, _, test = where.partition("::")
        body = test_body(file, test, read(file))
        if not body:
            out.append(f"{code}: {where} is not there")
        elif not asserts(file, body, code, known):
            out.append(f"{code}: {where} has no assertion that this code alone fulfils")
    return out


def read(file: str) -> str:
    path = ROOT / file
    return path.read_text() if path.is_file() else ""


def check_itself():
    files = {"a.py": "def test_a():\n    assert x == \"LOST\"\n\n\ndef test_b():\n    fails(\"QUOTA\", f)\n",
             "b.cpp": "TEST_F(S, A) {\n  EXPECT_EQ(x(y()), Code::kPoolFull);\n}\n"
                      "TEST(S, B) {\n  EXPECT_EQ(f(), OCM_IO) << OCM_OK;\n}\n",
             "weak.py": "def test_names():\n    LOST\n\n\ndef test_not():\n    assert x != \"LOST\"\n\n\n"
                        "def test_either():\n    assert x in (\"LOST\", \"QUOTA\")\n",
             "weak.cpp": "TEST(S, Names) {\n  x(OCM_IO);\n}\nTEST(S, Not) {\n  EXPECT_NE(f(), OCM_IO);\n}\n"
                         "TEST(S, Either) {\n  EXPECT_EQ(f(), a ? OCM_IO : OCM_LOST);\n}\n"}
    good = {"LOST": "a.py::test_a", "QUOTA": "a.py::test_b", "POOL_FULL": "b.cpp::S.A", "IO": "b.cpp::S.B"}
    assert wrong(list(good), good, lambda file: files.get(file, "")) == []
    for code, where in (("LOST", "a.py::test_b"), ("LOST", "a.py::test_c"), ("LOST", "c.py::test_a"),
                        ("POOL_FULL", "b.cpp::S.B"), ("NEW", "a.py::test_a"), ("LOST", "weak.py::test_names"),
                        ("LOST", "weak.py::test_either"), ("LOST", "weak.py::test_not"), ("IO", "weak.cpp::S.Names"),
                        ("IO", "weak.cpp::S.Either"), ("IO", "weak.cpp::S.Not")):
        assert len(wrong(list(good), {**good, code: where}, lambda file: files.get(file, ""))) in (1, 2)
    assert len(wrong([*good, "NEW"], good, lambda file: files.get(file, ""))) == 1


def main() -> int:
    check_itself()
    known = codes(HEADER.read_text())
    faults = wrong(known, PROVOKED, read)
    print("\n".join(faults) or f"{len(known)} codes, each provoked by a test")
    return 1 if faults or len(known) < 25 else 0


if __name__ == "__main__":
    sys.exit(main())
