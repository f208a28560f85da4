#!/usr/bin/env python3
"""Writes python/levin_train/registered.py: the classes that levin_train.export() maps to levin's, with their options, by `levin schema`.

    scripts/python_classes.py build/bin/levin            # writes the file (make python-classes)
    scripts/python_classes.py build/bin/levin --check    # exits with 1 when the file is out of date
"""

import json
import pathlib
import subprocess
import sys

FILE = pathlib.Path(__file__).resolve().parents[1] / "python" / "levin_train" / "registered.py"
HEAD = '"""Classes of levin that have counterparts in torch and torchmetrics, and their options. `make python-classes` writes this."""\n'


def classes(definition):
    """{class: options} of a section of the schema."""
    conditions = next(choice["allOf"] for choice in definition["anyOf"] if "allOf" in choice)
    found = {}
    for condition in conditions:
        pattern = condition["if"]["properties"]["class_path"]["pattern"]
        arguments = condition["then"]["properties"]["init_args"]["anyOf"][0].get("properties", {})
        # Options that are there for configurations of PyTorch alone are marked as deprecated.
        options = [name for name, option in arguments.items() if not option.get("deprecated")]
        found[pattern.removeprefix("^(.*[.:])?(").removesuffix(")$")] = options
    return found


def text(schema):
    parts = [HEAD]
    for name, section in (("METRICS", "metric"), ("OPTIMIZERS", "optimizer"), ("LR_SCHEDULERS", "lr_scheduler")):
        rows = "".join(f"    {json.dumps(key)}: {json.dumps(options)},\n" for key, options in classes(schema[section]).items())
        parts.append(f"{name} = {{\n{rows}}}\n")
    return "\n".join(parts)


def main():
    schema = json.loads(subprocess.run([sys.argv[1], "schema"], check=True, capture_output=True, text=True).stdout)["$defs"]
    made = text(schema)
    if "--check" not in sys.argv:
        FILE.write_text(made, encoding="utf-8")
    elif not FILE.exists() or FILE.read_text(encoding="utf-8") != made:
        sys.exit(f"{FILE} is out of date: run `make python-classes`")


if __name__ == "__main__":
    main()
