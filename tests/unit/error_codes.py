"""Every code of ocm_status has a test that provokes it: the code comes out of a running daemon, or out of the code that
decides it in production, and not out of a status that the test makes.

A new code fails here until PROVOKED names its test. The test must be there and name the code.
"""
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
    # All homes of a replicated allocation are killed.
    "LOST": "tests/cluster/test_failures.py::test_a_replicated_allocation_ends_when_all_its_nodes_die_at_once",
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
    # A program under RLIMIT_NOFILE opens a session.
    "NO_FDS": "tests/api/session_test.cpp::Opening.WithoutFreeDescriptorsSaysSo",
    # The source of a load fails with errno EIO.
    "IO": "tests/api/table_test.cpp::Table.ALoadThatFailsLeavesNothing",
    # A daemon that was told to stop, and waits, is asked for memory by one that does not know.
    "DRAINING": "tests/cluster/test_stop.py::test_a_stop_that_takes_a_last_copy_waits_to_be_told_twice",
    "LIMIT": "tests/cluster/test_hostile.py::test_the_limit_on_sessions_is_an_error",
    "NO_COORDINATOR": "tests/cluster/test_failures.py::test_the_coordinator_killed_and_started_again_loses_nothing",
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


def names(body: str, code: str) -> bool:
    """Whether it says OCM_CODE, Code::kCode, "CODE" or CODE."""
    constant = "k" + "".join(word.capitalize() for word in code.split("_"))
    return re.search(rf"\b(?:OCM_{code}|Code::{constant}|{code})\b", body) is not None


def wrong(known: list, provoked: dict, read) -> list:
    out = [f"{code}: no test provokes it; name one in {pathlib.Path(__file__).name}" for code in known
           if code not in provoked]
    out += [f"{code}: ocm_status has no such code" for code in provoked if code not in known]
    for code, where in provoked.items():
        file, _, test = where.partition("::")
        body = test_body(file, test, read(file))
        if not body:
            out.append(f"{code}: {where} is not there")
        elif not names(body, code):
            out.append(f"{code}: {where} does not name it")
    return out


def read(file: str) -> str:
    path = ROOT / file
    return path.read_text() if path.is_file() else ""


def check_itself():
    files = {"a.py": "def test_a():\n    assert x == \"LOST\"\n\n\ndef test_b():\n    QUOTA\n",
             "b.cpp": "TEST_F(S, A) {\n  x(Code::kPoolFull);\n}\nTEST(S, B) {\n  OCM_IO;\n}\n"}
    good = {"LOST": "a.py::test_a", "QUOTA": "a.py::test_b", "POOL_FULL": "b.cpp::S.A", "IO": "b.cpp::S.B"}
    assert wrong(list(good), good, lambda file: files.get(file, "")) == []
    for code, where in (("LOST", "a.py::test_b"), ("LOST", "a.py::test_c"), ("LOST", "c.py::test_a"),
                        ("POOL_FULL", "b.cpp::S.B"), ("NEW", "a.py::test_a")):
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
