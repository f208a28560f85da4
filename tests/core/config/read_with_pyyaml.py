"""Checks that PyYAML reads what to_yaml() writes: the same values as to_json() writes, which Python's own reader takes.

Usage: read_with_pyyaml.py YAML JSON
"""
import json
import math
import sys

import yaml


def decoded(value):
    """What a value of the JSON stands for; texts as bytes, as YAML's !!binary gives them."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [decoded(element) for element in value]
    if isinstance(value, dict):
        if len(value) == 1 and "$hex" in value:
            return bytes.fromhex(value["$hex"])
        if len(value) == 1 and "$float" in value:
            return float(value["$float"])
        return {decoded_key(key): decoded(element) for key, element in value.items()}
    return value


def decoded_key(key):
    if key.startswith("$hex:"):
        return bytes.fromhex(key[5:])
    return (key[1:] if key.startswith("$$") else key).encode()


def as_bytes(value):
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [as_bytes(element) for element in value]
    if isinstance(value, dict):
        return {as_bytes(key): as_bytes(element) for key, element in value.items()}
    return value


def same(left, right):
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def main():
    with open(sys.argv[1], "rb") as file:
        by_yaml = as_bytes(yaml.load(file, Loader=yaml.SafeLoader))
    with open(sys.argv[2], "rb") as file:
        by_json = decoded(json.load(file))
    if same(by_yaml, by_json):
        return 0
    for key in by_json:
        if not same(by_yaml.get(key), by_json[key]):
            print(f"{key!r}: PyYAML read {str(by_yaml.get(key))[:300]}, meant was {str(by_json[key])[:300]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
