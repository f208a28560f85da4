#!/usr/bin/env python3
"""Writes files/, and references.safetensors: what pyarrow, pandas, h5py and NumPy say that is in them. Run it with a Python that has
pyarrow 26, pandas 3, h5py, numpy and safetensors.

Of files of columns the tensors are "FILE/NUMBER OF THE COLUMN", float64 with NaN for missing values, in the shape of a row's; the file's
metadata has the texts of columns of texts, row by row. Of files of arrays they are "FILE/NAME"."""
import datetime
import decimal
import json
import pathlib
from fractions import Fraction

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
FILES = HERE / "files"
FILES.mkdir(exist_ok=True)
random = np.random.default_rng(7)
tensors, texts = {}, {}

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def number(value, kind):
    """A value of pyarrow's as a float: None is missing."""
    if value is None:
        return float("nan")
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        return float(Fraction(value, PER_SECOND[kind.unit]))
    if pa.types.is_date32(kind):
        return value * 86400.0
    if pa.types.is_date64(kind):
        return value / 1000
    return float(value)


def storage(column, kind):
    """What a column's values are in the file: times as their integers."""
    if pa.types.is_time32(kind) or pa.types.is_date32(kind):
        return column.cast(pa.int32()).to_pylist()
    if pa.types.is_temporal(kind):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64()).to_pylist()
    return column.to_pylist()


def leaf(kind):
    return leaf(kind.value_type) if pa.types.is_nested(kind) and hasattr(kind, "value_type") else kind


def shape_of(rows):
    first = next((row for row in rows if row is not None), None)
    return [] if not isinstance(first, list) else [len(first), *shape_of([each for row in rows if row is not None for each in row])]


def flat(row, shape):
    if not shape:
        return [row]
    return [each for part in (row if row is not None else [None] * shape[0]) for each in flat(part, shape[1:])]


def record(file, table):
    for index, column in enumerate(table.columns):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if pa.types.is_dictionary(column.type):
            values = values.cast(kind)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            texts[f"{file}/{index}"] = values.to_pylist()
            continue
        if pa.types.is_struct(leaf(kind)) or pa.types.is_binary(kind) or pa.types.is_string(leaf(kind)):
            continue
        rows = storage(values, kind)
        shape = shape_of(rows)
        numbers = [number(each, leaf(kind)) for row in rows for each in flat(row, shape)]
        tensors[f"{file}/{index}"] = np.array(numbers, dtype=np.float64).reshape(len(rows), *shape)


def write(name, table, **options):
    pq.write_table(table, FILES / f"{name}.parquet", **options)
    record(f"{name}.parquet", pq.ParquetFile(FILES / f"{name}.parquet").read())


ROWS = 23
FRAME = pd.DataFrame({
    "area": random.normal(size=ROWS),
    "rooms": pd.array([None if row == 4 else row % 5 for row in range(ROWS)], dtype="Int64"),
    "garden": [row % 3 == 0 for row in range(ROWS)],
    "city": [None if row == 9 else ["Rome", "Bonn", "Oslo"][row % 3] for row in range(ROWS)],
    "heating": pd.Categorical([["gas", "oil"][row % 2] for row in range(ROWS)]),
    "sold": pd.to_datetime("2024-01-31T23:59:59.25") + pd.to_timedelta(np.arange(ROWS) * 3601, unit="min"),
    "embedding": [[float(row), row / 2, -row] for row in range(ROWS)],
    "price": random.integers(1, 10**6, size=ROWS),
}, index=[f"h{row}" for row in range(ROWS)])

# As pandas writes them, with an index.
FRAME.to_parquet(FILES / "houses.parquet")
record("houses.parquet", pq.ParquetFile(FILES / "houses.parquet").read())
pq.write_table(pq.read_table(FILES / "houses.parquet"), FILES / "houses_in_groups.parquet", row_group_size=4)
FRAME.to_feather(FILES / "houses.feather", compression="zstd")
record("houses.feather", pa.feather.read_table(FILES / "houses.feather"))

ints = [None if row == 3 else row for row in range(7)]
TYPES = pa.table({
    "int8": pa.array(ints, pa.int8()), "int16": pa.array(ints, pa.int16()), "int32": pa.array(ints, pa.int32()),
    "int64": pa.array([2**53, -2**53, 2**60, None, 0, 1, -1], pa.int64()),
    "uint8": pa.array(ints, pa.uint8()), "uint16": pa.array(ints, pa.uint16()), "uint32": pa.array(ints, pa.uint32()),
    "uint64": pa.array([2**63, 0, 1, 2, None, 3, 4], pa.uint64()),
    "half": pa.array([np.float16(v) for v in (0.1, -2, 65504, 6e-8, 0, 1, 2)], pa.float16()),
    "float": pa.array([0.1, None, float("inf"), -1e-40, 1e38, float("nan"), 0], pa.float32()),
    "double": pa.array([0.1, None, float("-inf"), 5e-324, 1e308, float("nan"), 0]),
    "bool": pa.array([True, False, None, True, True, False, False]),
    "decimal32": pa.array([decimal.Decimal(v) for v in ("1.25", "-9.99", "0.01", "0", "3", "4", "5")], pa.decimal32(5, 2)),
    "decimal128": pa.array([None, *(decimal.Decimal(v) for v in ("-12345678901234567890.123", "0.001", "0", "3", "4", "5"))], pa.decimal128(30, 3)),
    "decimal256": pa.array([decimal.Decimal(v) for v in ("1.5", "-1e30", "0.1", "0", "3", "4", "5")], pa.decimal256(60, 5)),
    "date32": pa.array([datetime.date(1969, 12, 31), None, *[datetime.date(2024, 2, 29)] * 5]),
    "date64": pa.array([datetime.date(1969, 12, 31), None, *[datetime.date(2024, 2, 29)] * 5], pa.date64()),
    "seconds": pa.array([-1, None, 2**40, 3, 4, 5, 6], pa.timestamp("s")),
    "nanoseconds": pa.array([-1, None, 1700000000123456789, 3, 4, 5, 6], pa.timestamp("ns", tz="Europe/Rome")),
    "time32": pa.array([1, 2, None, 4, 5, 6, 86399999], pa.time32("ms")),
    "time64": pa.array([1, 2, None, 4, 5, 6, 86399999999], pa.time64("us")),
    "duration": pa.array([-5, 2, None, 4, 5, 6, 7], pa.duration("ms")),
    "null": pa.nulls(7),
    "text": pa.array(["a", "", None, "ä", "a", "b\nc", "a"]),
    "large_text": pa.array(["a", "", None, "ä", "a", "b", "a"], pa.large_string()),
    "dictionary": pa.array(["b", None, "a", "b", "c", "b", "b"]).dictionary_encode(),
    "numbers_dictionary": pa.array([3, None, 5, 3, 3, 5, 5]).dictionary_encode(),
    "fixed": pa.array([[1, 2], None, [3, 4], [5, None], [7, 8], [9, 10], [11, 12]], pa.list_(pa.int32(), 2)),
    "lists": pa.array([None, [1.5, 2.5], [3.5, 4.5], [5, 6], [7, 8], [9, 10], [11, 12]], pa.list_(pa.float64())),
    "large_lists": pa.array([[1, 2, 3]] * 7, pa.large_list(pa.int16())),
    "nested": pa.array([[[row, 1, 2], [3, 4, row]] for row in range(7)]),
    "nested_fixed": pa.array([[[row, 1], [3, row]] for row in range(7)], pa.list_(pa.list_(pa.float32(), 2), 2)),
    "struct": pa.array([{"a": 1, "b": 2}] * 7),
    "bytes": pa.array([b"\xff"] * 7),
    "text_lists": pa.array([["a"]] * 7),
})
write("types", TYPES, row_group_size=3, compression="zstd")
for compression in ("none", "snappy", "gzip", "brotli", "lz4"):
    write(f"compressed_{compression}", TYPES.select(["int32", "double", "text"]), compression=compression)
write("old_version", TYPES.select(["int32", "double", "text", "bool"]), version="1.0", data_page_version="2.0", use_dictionary=False)
for name, table in {"types": TYPES, "views": pa.table({"view": pa.array(["a", None, "long enough to stand apart"], pa.string_view())})}.items():
    with pa.ipc.new_file(FILES / f"{name}.arrow", table.schema) as sink:
        sink.write_table(table, max_chunksize=2)
    record(f"{name}.arrow", table)
with pa.ipc.new_stream(FILES / "stream.arrow", TYPES.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as sink:
    sink.write_table(TYPES, max_chunksize=3)
record("stream.arrow", TYPES)

# What is seldom.
write("no_rows", TYPES.select(["int32", "text", "lists"]).slice(0, 0))
with pq.ParquetWriter(FILES / "empty_groups.parquet", TYPES.select(["int32", "text", "lists"]).schema) as sink:
    part = TYPES.select(["int32", "text", "lists"])
    for begin, length in ((0, 0), (0, 1), (1, 0), (1, 4), (5, 0)):
        sink.write_table(part.slice(begin, length))
record("empty_groups.parquet", part.slice(0, 5))
write("same_names", pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4]), pa.array([0, 1])], names=["x", "x", "y"]))
pq.write_table(pa.table({"id": pa.array([1, 2**53 + 1]), "y": pa.array([0, 1])}), FILES / "too_large.parquet")
pq.write_table(pa.table({"x": pa.array([[1, 2], [3]]), "y": pa.array([0, 1])}), FILES / "ragged.parquet")

# Arrays.
ARRAYS = {"x": random.normal(size=(11, 2, 3)), "y": np.arange(11) % 4, "small": random.normal(size=11).astype(np.float16),
          "bytes": np.arange(22, dtype=np.uint8).reshape(11, 2), "u16": (np.arange(11) + 65500).astype(np.uint16),
          "u32": (np.arange(11) + 2**32 - 20).astype(np.uint32), "u64": np.arange(11, dtype=np.uint64), "truth": np.arange(11) % 3 == 0,
          "fortran": np.asfortranarray(random.normal(size=(11, 4))), "big_endian": np.arange(11, dtype=">f8"), "none": np.zeros((11, 0))}


def record_arrays(file, arrays):
    for name, values in arrays.items():
        values = values.astype(values.dtype.newbyteorder("="))
        tensors[f"{file}/{name}"] = np.ascontiguousarray(values.astype({"u2": np.int32, "u4": np.int64, "u8": np.int64}.get(values.dtype.str[1:], values.dtype)))


with h5py.File(FILES / "arrays.h5", "w") as file:
    group = file.create_group("run")
    for name, values in ARRAYS.items():
        group.create_dataset(name, data=values, **({"chunks": (3, *values.shape[1:]), "compression": "gzip", "shuffle": True} if name in ("x", "y") else {}))
    group["words"] = ["a", "b"]
    file["records"] = np.zeros(3, dtype=[("a", "i4"), ("b", "f4")])
    file["number"] = 5.0
    file["again"] = group["x"]
    group["loop"] = file["/"]
    file["gone"] = h5py.SoftLink("/nowhere")
record_arrays("arrays.h5", {f"run/{name}": values for name, values in ARRAYS.items()})
with h5py.File(FILES / "too_large.h5", "w") as file:
    file["x"] = np.array([2**63], dtype=np.uint64)
with h5py.File(FILES / "unreadable.h5", "w") as file:
    file.create_dataset("lzf", data=np.repeat(np.arange(50.0), 4).reshape(50, 4), compression="lzf")
    file["texts"] = np.array([b"a"] * 50)
    file["complex"] = np.zeros(50, dtype=np.complex64)
    file.create_dataset("lists", (50,), dtype=h5py.vlen_dtype(np.int32))
np.savez(FILES / "stored.npz", **ARRAYS)
np.savez_compressed(FILES / "compressed.npz", **ARRAYS)
for name in ("stored", "compressed"):
    record_arrays(f"{name}.npz", ARRAYS)
np.savez_compressed(FILES / "zeros.npz", x=np.zeros(9_000_000))
(FILES / "folder").mkdir(exist_ok=True)
for name in ("x", "fortran", "big_endian", "y"):
    np.save(FILES / "folder" / f"{name}.npy", ARRAYS[name])
record_arrays("folder", {name: ARRAYS[name] for name in ("x", "fortran", "big_endian", "y")})
save_file({name: np.ascontiguousarray(ARRAYS[name]) for name in ("x", "y")}, FILES / "arrays.safetensors")
record_arrays("arrays.safetensors", {name: ARRAYS[name] for name in ("x", "y")})
save_file(tensors, HERE / "references.safetensors", metadata={"texts": json.dumps(texts)})
