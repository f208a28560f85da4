"""Checks `levin schema` against a JSON Schema validator, and that the schema and levin itself agree on good and bad YAML.

Usage: schema_check.py LEVIN
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema
import yaml

GOOD = [
    "{}",
    "trainer: {max_epochs: 5, devices: 2, precision: 32}",
    "trainer: {devices: auto, limit_train_batches: 0.5, val_check_interval: 10, gradient_clip_val: 1}",
    "trainer: {logger: false, callbacks: [], strategy: auto}",
    "seed_everything: true",
    "seed_everything: 7",
    "optimizer: AdamW",
    "optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.1}}",
    "{optimizer: SGD, lr_scheduler: {class_path: StepLR, init_args: {step_size: 3}, interval: step}}",
    "optimizer: null",
    "ckpt_path: best",
]
BAD = [
    "trainer: {max_epoch: 5}",
    "modle: X",
    "trainer: {max_epochs: many}",
    "trainer: {accumulate_grad_batches: 0}",
    "trainer: {precision: 31}",
    "trainer: {fast_dev_run: -1}",
    "seed_everything: -1",
    "seed_everything: yes please",
    "optimizer: AdamWW",
    "optimizer: {class_path: AdamW, init_args: {lrr: 0.1}}",
    "optimizer: {class_path: AdamW, init_args: {lr: -0.1}}",
    "optimizer: {class_path: AdamW, lr: 0.1}",
    "optimizer: {init_args: {lr: 0.1}}",
    "lr_scheduler: {class_path: StepLR, init_args: {step_size: 3}, interval: batch}",
    "lr_scheduler: StepLR",
    "trainer: {callbacks: [NoSuchCallback]}",
    "trainer: {callbacks: [null]}",
    "plugins: 5",
]


def main():
    levin = sys.argv[1]
    schema = json.loads(subprocess.run([levin, "schema"], check=True, capture_output=True, text=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "run.yaml"
        for expected, documents in ((True, GOOD), (False, BAD)):
            for text in documents:
                file.write_text(text)
                by_schema = validator.is_valid(yaml.safe_load(text))
                run = subprocess.run([levin, "fit", "--print_config", "--config", str(file)], capture_output=True, text=True)
                by_levin = run.returncode == 0
                if not by_levin and run.returncode != 2:
                    failures.append(f"levin ended with {run.returncode} on: {text}")
                if (by_schema, by_levin) != (expected, expected):
                    failures.append(f"expected {expected}, schema says {by_schema}, levin {by_levin}: {text}\n{run.stderr}")
                if by_levin and not validator.is_valid(yaml.safe_load(run.stdout)):
                    failures.append(f"the schema refuses what --print_config printed for: {text}")
    print("\n".join(failures) or "schema and levin agree")
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
