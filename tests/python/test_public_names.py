"""Where users find what the package has, whatever room it stands in: names, what `repr()` says, pickles."""
import importlib
import pickle

import pytest

import oncilla

PLACES = {
    "oncilla.aio": ("THREADS", "aconnect", "run", "run_to_end"),
    "oncilla.allocation": ("Allocation", "acopy", "copy", "start_copy"),
    "oncilla.errors": ("AllocationError", "CallError", "ClusterError", "Error", "NodeError", "NotFound", "PeerError",
                       "PeerLost", "from_status"),
    "oncilla.fs": ("OcmFileSystem", "OcmReader", "OcmWriter", "register"),
    "oncilla.nodes": ("AllocationInfo", "Extent", "Name", "Node"),
    "oncilla.operations": ("Operation",),
    "oncilla.selection": ("Selection",),
    "oncilla.session": ("Session", "connect"),
    "oncilla.snapshot": ("Chunk", "Column", "Field", "Readable", "Snapshot"),
    "oncilla.table": ("Cache", "Column", "Readable", "Snapshot", "Table", "table_names"),
}
SHOWN = [("oncilla.allocation", "Allocation"), ("oncilla.fs", "OcmFileSystem"), ("oncilla.nodes", "Node"),
         ("oncilla.operations", "Operation"), ("oncilla.selection", "Selection"), ("oncilla.session", "Session"),
         ("oncilla.snapshot", "Snapshot"), ("oncilla.table", "Table")]


@pytest.mark.parametrize("module", PLACES)
def test_a_public_module_has_its_names(module):
    for name in PLACES[module]:
        assert hasattr(importlib.import_module(module), name), name


@pytest.mark.parametrize("name", oncilla.__all__)
def test_the_package_has_what_it_lists(name):
    assert getattr(oncilla, name) is not None


@pytest.mark.parametrize("module, name", SHOWN)
def test_a_class_says_its_public_module(module, name):
    assert getattr(importlib.import_module(module), name).__module__ == module


@pytest.mark.parametrize("kind", [value for value in vars(oncilla).values()
                                  if isinstance(value, type) and issubclass(value, oncilla.Error)])
def test_an_exception_is_pickled_by_its_public_name(kind):
    data = pickle.dumps(kind("text"))
    assert b"oncilla.errors" in data and b"oncilla.core" not in data
    back = pickle.loads(data)
    assert type(back) is kind and back.text == "text"
