"""Reads the checkpoint of python_test.cpp with the safetensors package, and checks what is in it."""
import json
import sys

import numpy
from safetensors import safe_open

with safe_open(sys.argv[1], framework="numpy") as file:
    assert sorted(file.keys()) == ["counts", "empty", "flags", "scalar", "transposed"], file.keys()
    expected = {
        "flags": numpy.array([True, False, True]),
        "counts": numpy.arange(5),
        "scalar": numpy.array(2.5, dtype=numpy.float32),
        "empty": numpy.empty((0, 3), dtype=numpy.float32),
        "transposed": numpy.arange(6, dtype=numpy.float64).reshape(2, 3).T,
    }
    for name, value in expected.items():
        found = file.get_tensor(name)
        assert found.dtype == value.dtype and found.shape == value.shape and (found == value).all(), name
    assert json.loads(file.metadata()["levin_manifest"]) == {"epoch": 3}
