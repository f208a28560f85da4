"""The format of Hugging Face's safetensors: a length, a header in JSON, and the bytes of tensors."""

import io
import json
import os
import struct
import zlib

import torch

NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
         torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}


class DamagedError(ValueError):
    """A checksum that a file has of itself does not hold."""


def to_bytes(tensors, metadata=None):
    header, parts, offset = {} if metadata is None else {"__metadata__": metadata}, [], 0
    for name, tensor in tensors.items():
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def from_file(path):
    """The tensors of a safetensors file by name, and its metadata."""
    with open(path, "rb") as file:
        return _read(file, os.fstat(file.fileno()).st_size)


def from_bytes(content):
    """The tensors of such a file's bytes, by name."""
    return _read(io.BytesIO(content), len(content))[0]


def _read(file, size):
    begin = file.read(8)
    if len(begin) < 8 or (length := struct.unpack("<Q", begin)[0]) > size - 8:
        raise ValueError("its header is cut short")
    header = json.loads(file.read(length))
    data = bytearray(file.read())
    metadata = header.pop("__metadata__", {})
    _check(metadata, data)
    dtypes = {name: dtype for dtype, name in NAMES.items()}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if not 0 <= begin <= end <= len(data):
            raise ValueError(f"{name} lies outside of the file")
        dtype = dtypes[entry["dtype"]]
        flat = torch.frombuffer(data[begin:end], dtype=dtype) if end > begin else torch.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(entry["shape"]).clone()
    return tensors, metadata


def _check(metadata, data):
    """The checksums that each checkpoint of levin has. Files of other writers have none."""
    if (manifest := metadata.get("levin_manifest")) is None:
        return
    for what, key, covered in (("manifest", "levin_manifest_crc32", manifest.encode("utf-8", "surrogatepass")),
                               ("tensor data", "levin_data_crc32", data)):
        if metadata.get(key) != str(zlib.crc32(covered)):
            raise DamagedError(f"its checksum shows that its {what} is damaged")
