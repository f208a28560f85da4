"""Checks `levin schema` against a JSON Schema validator, and that the schema and levin itself agree on good and bad YAML.

Usage: schema_check.py LEVIN
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jsonschema
import yaml


def trainer(option):
    return f"trainer: {{{option}}}"


def callback(name, arguments):
    return f"trainer: {{callbacks: [{{class_path: {name}, init_args: {{{arguments}}}}}]}}"


def adam(arguments):
    return f"optimizer: {{class_path: Adam, init_args: {{{arguments}}}}}"


GOOD = [
    "{}",
    trainer("max_epochs: 5, devices: 2, precision: 32"),
    trainer("devices: auto, limit_train_batches: 0.5, val_check_interval: 10, gradient_clip_val: 1"),
    trainer("logger: false, callbacks: [], strategy: auto"),
    trainer("devices: -1"),
    trainer('devices: "-1"'),
    trainer('devices: "2"'),
    trainer('devices: "0,"'),
    trainer('devices: "0,3"'),
    trainer("devices: [0]"),
    trainer("devices: [0, 3]"),
    trainer("limit_train_batches: 0, limit_val_batches: 1000000, limit_test_batches: 1.0, limit_predict_batches: 0.0"),
    trainer("limit_train_batches: null"),
    trainer("overfit_batches: 3"),
    trainer("val_check_interval: 0.25"),
    trainer('val_check_interval: "00:00:10:00"'),
    trainer("val_check_interval: null"),
    trainer('max_time: "1:12:00:00"'),
    trainer("max_time: null"),
    trainer("max_time: {hours: 2, minutes: 30}"),
    trainer("devices: null"),
    trainer("gpus: null"),
    trainer("strategy: lightning.pytorch.strategies.DDPStrategy"),
    trainer("strategy: {class_path: DDPStrategy, init_args: {start_method: popen, dim: 0, static_graph: null}}"),
    trainer("logger: {class_path: TensorBoardLogger, init_args: {log_graph: true, sub_dir: ''}}"),
    trainer("callbacks: [{class_path: Timer, init_args: null}, {class_path: Timer, dict_kwargs: {verbose: null}}]"),
    "weights_only: false",
    "fit: {weights_only: null}",
    "optimizer: {class_path: torch.optim.Adam, init_args: {foreach: null, maximize: false}}",
    "{optimizer: SGD, lr_scheduler: {class_path: ReduceLROnPlateau, init_args: {monitor: val_loss}}}",
    trainer("fast_dev_run: 3"),
    trainer("num_sanity_val_steps: -1, max_steps: -1, max_epochs: -1"),
    callback("Timer", 'duration: "00:00:00:30", interval: step'),
    callback("ModelCheckpoint", 'train_time_interval: "00:01:00:00", save_top_k: -1, save_last: link'),
    callback("GradientAccumulationScheduler", 'scheduling: {"0": 1, "4": 8}'),
    adam("betas: [0.9, 0.95]"),
    adam("betas: [0, 0.5]"),
    "seed_everything: true",
    "seed_everything: 7",
    "optimizer: AdamW",
    "optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.1}}",
    "{optimizer: SGD, lr_scheduler: {class_path: StepLR, init_args: {step_size: 3}, interval: step}}",
    "optimizer: null",
    "optimizer: {class_path: AdamW, no_decay: [bias, norm]}",
    "optimizer: {class_path: AdamW, groups: [{parameters: [bias], weight_decay: 0}, {parameters: ['^head'], lr: 0.01}]}",
    "{optimizer: SGD, lr_scheduler: CosineAnnealingLR}",
    "{optimizer: SGD, lr_scheduler: {class_path: OneCycleLR, init_args: {max_lr: 0.1}, interval: step}}",
    "ckpt_path: best",
    trainer("max_epochs: '${env:LEVIN_NO_SUCH_VARIABLE,3}', max_steps: '${trainer.max_epochs}', devices: '${seed_everything}'") + "\nseed_everything: 2",
    adam("lr: '${env:LEVIN_NO_SUCH_VARIABLE,0.5}'"),
    "fit: {trainer: {max_epochs: 3}}\ntest: {seed_everything: 4}",
    "{include: [], fit: null}",
]
BAD = [
    trainer("max_epoch: 5"),
    "modle: X",
    "fit: {modle: X}",
    "test: [1]",
    "fit: {trainer: {max_epochs: many}}",
    "include: 5",
    "include: [{a: 1}]",
    trainer("max_epochs: '{env:X,3}'"),
    trainer("max_epochs: many"),
    trainer("max_epochs: -2"),
    trainer("max_epochs: 1.5"),
    trainer("max_steps: -2"),
    trainer("accumulate_grad_batches: 0"),
    trainer("precision: 31"),
    trainer("fast_dev_run: -1"),
    trainer("devices: 0"),
    trainer("devices: -2"),
    trainer("devices: 3000000000"),
    trainer("devices: 1.5"),
    trainer("devices: many"),
    trainer('devices: ""'),
    trainer('devices: "0"'),
    trainer('devices: "-2"'),
    trainer('devices: ","'),
    trainer('devices: "0,x"'),
    trainer('devices: "0 1"'),
    trainer("devices: []"),
    trainer("devices: [-1]"),
    trainer("devices: [1, 1]"),
    trainer("devices: [0.5]"),
    trainer("limit_train_batches: -1"),
    trainer("limit_train_batches: 1.5"),
    trainer("limit_val_batches: -0.5"),
    trainer("limit_test_batches: half"),
    trainer("limit_predict_batches: [1]"),
    trainer("overfit_batches: 1.5"),
    trainer("val_check_interval: -1"),
    trainer("val_check_interval: 1.5"),
    trainer("val_check_interval: often"),
    trainer("val_check_interval: 10 minutes"),
    trainer("max_time: yesterday"),
    trainer('max_time: "00:30"'),
    trainer("max_time: 30"),
    trainer("gradient_clip_val: -1"),
    trainer("gradient_clip_algorithm: sign"),
    trainer("timeout_seconds: 0"),
    trainer("logger: 5"),
    callback("Timer", "duration: yesterday"),
    callback("ModelCheckpoint", "train_time_interval: 10"),
    callback("ModelCheckpoint", "save_top_k: -2"),
    callback("ModelCheckpoint", "save_last: copy"),
    callback("GradientAccumulationScheduler", "scheduling: {first: 1}"),
    callback("GradientAccumulationScheduler", 'scheduling: {"0": 0.5}'),
    adam("betas: [0.9]"),
    adam("betas: [0.9, 0.95, 0.99]"),
    adam("betas: [0.9, 1.0]"),
    adam("betas: [-0.1, 0.9]"),
    adam("betas: 0.9"),
    "seed_everything: -1",
    "seed_everything: yes please",
    "optimizer: AdamWW",
    "optimizer: {class_path: AdamW, init_args: {lrr: 0.1}}",
    "optimizer: {class_path: AdamW, init_args: {lr: -0.1}}",
    "optimizer: {class_path: AdamW, lr: 0.1}",
    "optimizer: {init_args: {lr: 0.1}}",
    "optimizer: {class_path: AdamW, no_decay: bias}",
    "optimizer: {class_path: AdamW, init_args: {no_decay: [bias]}}",
    "optimizer: {class_path: AdamW, groups: [{lr: 0.1}]}",
    "optimizer: {class_path: AdamW, groups: [{parameters: []}]}",
    "optimizer: {class_path: AdamW, groups: [{parameters: [bias], lrr: 0.1}]}",
    "optimizer: {class_path: AdamW, groups: [{parameters: [bias], lr: -0.1}]}",
    "lr_scheduler: {class_path: StepLR, init_args: {step_size: 3}, interval: batch}",
    "lr_scheduler: {class_path: StepLR, init_args: {step_size: 0}}",
    "lr_scheduler: StepLR",
    trainer("callbacks: [NoSuchCallback]"),
    trainer("callbacks: [null]"),
    trainer("gpus: 2"),
    trainer("max_time: {hour: 2}"),
    trainer("strategy: fsdp"),
    trainer("callbacks: [{class_path: EarlyStopping, init_args: {monitor: null}}]"),
    trainer("logger: {class_path: TensorBoardLogger, init_args: {prefix: a}}"),
    "plugins: 5",
    'data: {class_path: TableDataModule, init_args: {path: ""}}',
    "data: {class_path: TableDataModule, init_args: {path: /etc/hostname, max_expansion: 0.5}}",
]


def check(validator, text, run, expected):
    """What is wrong with how the schema and levin judge a text; empty when both expect it."""
    by_schema = validator.is_valid(yaml.safe_load(text))
    if run["status"] not in (0, 2):
        return f"levin ended with {run['status']} on: {text}\n{run['err']}"
    by_levin = run["status"] == 0
    if (by_schema, by_levin) != (expected, expected):
        return f"expected {expected}, schema says {by_schema}, levin {by_levin}: {text}\n{run['err']}"
    if by_levin and not validator.is_valid(yaml.safe_load(run["out"])):
        return f"the schema refuses what --print_config printed for: {text}"
    return ""


def run_all(run_copies, loaded_levin, folder, texts):
    """What levin does with each text: run_copies loads it once for all of them."""
    commands = []
    for number, text in enumerate(texts):
        file = folder / f"{number}.yaml"
        file.write_text(text)
        commands.append([loaded_levin, "fit", "--print_config", "--config", str(file)])
    run = subprocess.run([run_copies], input=json.dumps(commands), check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def main():
    levin, loaded_levin, run_copies = sys.argv[1:]
    os.environ["OMP_NUM_THREADS"] = "1"
    schema = json.loads(subprocess.run([levin, "schema"], check=True, capture_output=True, text=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    with tempfile.TemporaryDirectory() as folder:
        runs = run_all(run_copies, loaded_levin, pathlib.Path(folder), GOOD + BAD)
    expected = [True] * len(GOOD) + [False] * len(BAD)
    results = [check(validator, *case) for case in zip(GOOD + BAD, runs, expected, strict=True)]
    failures = [result for result in results if result]
    print("\n".join(failures) or f"schema and levin agree on {len(GOOD)} good and {len(BAD)} bad texts")
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
