#!/usr/bin/env python3
"""Checks levin's statements about GPUs on one: `make gpu-check` runs this. Exit status 77 where there is no GPU.

    tests/gpu/gpu_check.py --build BUILD --out FOLDER [--only NAME,NAME] [--torch FOLDER]

Runs the programs of BUILD against the LibTorch of this machine (of python3's torch, unless --torch names one), and writes
gpu-report.md and the outputs of all checks to FOLDER. Needs Python's standard library alone.
"""
import argparse
import concurrent.futures
import csv
import glob
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 5
CHECKS = []
TIMED = []
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Failure(Exception):
    pass


class NotRun(Exception):
    """This machine lacks what a check needs."""


def check(what):
    """A check that may run at the same time as others: gives a line for the report, or raises."""
    def add(function):
        CHECKS.append((function.__name__, what, function))
        return function
    return add


def timed(what):
    """The same for a check that measures and so runs alone."""
    def add(function):
        TIMED.append((function.__name__, what, function))
        return function
    return add


class Machine:
    def __init__(self, build, torch, out):
        self.build, self.out = pathlib.Path(build).resolve(), pathlib.Path(out).resolve()
        self.gpus = (os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(str(gpu) for gpu in range(len(glob.glob("/dev/nvidia[0-9]*"))))).split(",")
        self.environment = dict(os.environ, CUDA_VISIBLE_DEVICES=self.gpus[0] or "0", LD_LIBRARY_PATH=f"{torch}/lib:{self.build}/lib:{self.build}/lib/parts", LEVIN_TEST_ACCELERATOR="cuda")

    def run(self, name, command, timeout=180, status=0, **environment):
        """The output of a command that has to end with this status (None: with any)."""
        command = [str(self.build / "bin" / command[0]), *map(str, command[1:])]
        try:
            done = subprocess.run(command, cwd=environment.pop("cwd", ROOT), env={**self.environment, **environment},
                                  timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            output, code = done.stdout, done.returncode
        except subprocess.TimeoutExpired as error:
            output, code = (error.stdout or b"").decode(errors="replace"), "timeout"
        with open(self.out / "outputs.txt", "a", encoding="utf-8") as file:
            file.write(f"\n===== {name}: {' '.join(command)}\n{output[-400000:]}\n----- status {code}\n")
        if status is not None and code != status:
            raise Failure(f"status {code} instead of {status}: {output.strip()[-600:]}")
        return output

    def fit(self, name, config, *flags, entry="fit", status=0, timeout=180, **environment):
        """Runs an example in a separate folder: the folder of its logs, and the output."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"gpu-check-{name}-"))
        output = self.run(name, ["levin", entry, "--config", f"examples/{config}", f"--trainer.default_root_dir={folder}", *flags],
                          status=status, timeout=timeout, **environment)
        return folder / "logs" / "version_0", output

    def step_time(self, *arguments):
        """The number that a program of the benchmarks prints last."""
        with tempfile.TemporaryDirectory() as folder:
            return float(re.findall(r"[0-9.eE+-]+", self.run(arguments[0], ["step_overhead", *arguments], cwd=folder))[-1])


def column(logs, name):
    with open(logs / "metrics.csv", encoding="utf-8") as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


def furthest(one, other):
    if len(one) != len(other) or not one:
        raise Failure(f"{len(one)} values and {len(other)}")
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(one, other))


def need(truth, what):
    if not truth:
        raise Failure(what)


@check("`accelerator: auto` takes the GPU, and the run says so")
def auto(machine):
    _, output = machine.fit("auto", "digits/config.yaml", "--trainer.max_epochs=1")
    line = next((line for line in output.splitlines() if line.startswith("device ")), output[-300:])
    need("cuda:0" in line, line)
    return line.split(",")[0]


@check("unit tests of the CUDA library")
def cuda_tests(machine):
    return machine.run("cuda_tests", ["cuda_tests", "--durations", "no"]).strip().splitlines()[-1]


@check("a program that calls `torch::manual_seed()` first can still use the GPU")
def asked_first(machine):
    return machine.run("asked_first", ["cuda_tests", "[asked_first]"]).strip().splitlines()[-1]


def unit_tests(name, program, filters, what):
    def function(machine):
        return machine.run(name, [program, *filters], timeout=240).strip().splitlines()[-1]
    function.__name__ = name
    check(what)(function)


unit_tests("graphs", "device_tests", ["--filenames-as-tags", "[#step_graph_test],[#optimizer_graph_test]"], "recorded steps have the results of called ones")
unit_tests("metrics", "metrics_tests", ["metrics have the same values on a device*"], "metrics of tensors on the GPU have torchmetrics' values")
unit_tests("optimizers", "optim_tests", ["a fused step has*"], "fused steps have LibTorch's numbers")


def both(machine, name, config, columns, *flags):
    on_gpu, _ = machine.fit(f"{name}-gpu", config, "--trainer.accelerator=cuda", *flags)
    on_cpu, _ = machine.fit(f"{name}-cpu", config, "--trainer.accelerator=cpu", *flags)
    most = {each: furthest(column(on_gpu, each), column(on_cpu, each)) for each in columns}
    need(max(most.values()) < 0.05, str(most))
    return ", ".join(f"{each} {value:.1e}" for each, value in most.items()) + " from the CPU's"


@check("digits has the CPU's losses")
def digits(machine):
    return both(machine, "digits", "digits/config.yaml", ["train_loss", "val_loss"], "--model.dropout=0", "--trainer.max_epochs=3")


def tokens(machine):
    """The option that names the language model's token file, which is made here."""
    data, file = "examples/language_model/data", machine.out / "alice.bin"
    machine.run("tokens", ["levin", "tokens", "encode", f"{data}/alice.txt", "--tokenizer", f"{data}/characters.json", "-o", file])
    return f"--data.path={file}"


@check("the language model has the CPU's losses")
def language_model(machine):
    return both(machine, "language_model", "language_model/config.yaml", ["train_loss", "val_loss"], "--trainer.max_epochs=1", tokens(machine))


@check("the other examples run: GAN with two optimizers, table, predictions of the language model")
def examples(machine):
    machine.fit("gan", "gan/config.yaml", "--trainer.accelerator=cuda", "--trainer.max_epochs=10")
    logs, _ = machine.fit("table", "table/config.yaml", "--trainer.accelerator=cuda")
    best = next(path for path in (logs / "checkpoints").iterdir() if path.name != "last.ckpt")
    machine.fit("table-test", "table/config.yaml", "--trainer.accelerator=cuda", f"--ckpt_path={best}", entry="test")
    machine.fit("table-on-cpu", "table/config.yaml", "--trainer.accelerator=cpu", f"--ckpt_path={best}", entry="test")
    logs, _ = machine.fit("writer", "language_model/config.yaml", "--trainer.accelerator=cuda", "--trainer.max_epochs=1", tokens(machine))
    best = next(path for path in (logs / "checkpoints").iterdir() if path.name != "last.ckpt")
    _, output = machine.fit("writer-predict", "language_model/config.yaml", "--trainer.accelerator=cuda", f"--ckpt_path={best}", tokens(machine), entry="predict")
    return "all end well; the writer: " + " ".join(output.split())[-60:].replace("|", " ")


@check("more of what people run: your own Trainer and loop, transfer, predictions, searches, `map_location`")
def more(machine):
    here = tempfile.mkdtemp()
    data = ROOT / "examples/digits/data/digits.csv"
    machine.run("own_trainer", ["own_trainer", data], cwd=here)
    logs, _ = machine.fit("digits-for-more", "digits/config.yaml", "--trainer.accelerator=cuda", "--trainer.max_epochs=1")
    last = logs / "checkpoints" / "last.ckpt"
    machine.fit("predict", "digits/config.yaml", "--trainer.accelerator=cuda", f"--ckpt_path={last}", entry="predict")
    machine.fit("map_location", "digits/config.yaml", "--trainer.accelerator=cuda", f"--ckpt_path={last}", "--map_location=cuda:0", entry="test")
    machine.fit("transfer", "transfer/config.yaml", "--trainer.accelerator=cuda", f"--data.path={data}", "--trainer.max_epochs=2")
    for finder in ("LearningRateFinder", "BatchSizeFinder"):
        machine.fit(finder, "digits/config.yaml", "--trainer.accelerator=cuda", "--trainer.max_epochs=1", f"--trainer.callbacks+={finder}")
    return "all end well"


@check("`strategy: ddp_sharded` and SyncBatchNorm on two ranks that share the GPU")
def sharded(machine):
    gloo = "--trainer.strategy.process_group_backend=gloo"
    two_ranks(machine, "sharded", 29651, gloo, "--trainer.strategy.class_path=ddp_sharded", "--trainer.max_epochs=2")
    two_ranks(machine, "sync_batchnorm", 29661, gloo, "--trainer.sync_batchnorm=true", "--trainer.max_epochs=1")
    return "both end well"


@check("digits with dropout resumes from its checkpoint to the bit")
def resume(machine):
    flags = ["--trainer.accelerator=cuda", "--trainer.deterministic=true"]
    whole, _ = machine.fit("whole", "digits/config.yaml", "--trainer.max_epochs=4", *flags)
    half, _ = machine.fit("half", "digits/config.yaml", "--trainer.max_epochs=2", *flags)
    rest, _ = machine.fit("rest", "digits/config.yaml", "--trainer.max_epochs=4", f"--ckpt_path={half / 'checkpoints' / 'last.ckpt'}", *flags)
    for name in ("train_loss", "val_loss"):
        tail = column(rest, name)
        need(tail and tail == column(whole, name)[-len(tail):], f"{name}: {column(whole, name)[-3:]} and {tail[-3:]}")
    return "every loss of epochs 2 and 3 is the same number"


@check("60 generated programs resume from each of their checkpoints to the bit")
def resume_programs(machine):
    output = machine.run("resume_programs", ["inside_programs", "resume", "ranks=1", f"folder={tempfile.mkdtemp()}", "programs=60", "seed=1", "stride=13"],
                         timeout=400)
    problems = re.findall(r"(?m)^rank \d+: .*", output)
    need(not problems, "; ".join(problems))
    return f"{len(re.findall('(?m)^fit resumes from', output))} resumes"


def precision(name):
    def function(machine):
        logs, _ = machine.fit(name, "digits/config.yaml", "--trainer.accelerator=cuda", f"--trainer.precision={name}", "--trainer.max_epochs=6")
        accuracy = column(logs, "val_acc")[-1]
        need(accuracy > 0.93, str(accuracy))
        return f"val_acc {accuracy:.3f} after 6 epochs"
    function.__name__ = name
    check(f"`precision: {name}`")(function)


for each in ("32-true", "16-mixed", "bf16-mixed", "bf16-true", "64-true"):
    precision(each)


@check("`cuda_graph: auto` trains digits as called steps do")
def cuda_graph(machine):
    flags = ["--trainer.accelerator=cuda", "--trainer.deterministic=true", "--model.dropout=0", "--trainer.max_epochs=3"]
    called, _ = machine.fit("called", "digits/config.yaml", *flags)
    recorded, output = machine.fit("recorded", "digits/config.yaml", "--trainer.cuda_graph=auto", "--trainer.log_level=debug", *flags)
    given_up = re.findall(r"cuda_graph: .*", output)
    need(not given_up, "; ".join(given_up))
    return f"val_loss {furthest(column(recorded, 'val_loss'), column(called, 'val_loss')):.1e} apart"


@check("callbacks of all kinds on the GPU")
def callbacks(machine):
    names = ["LearningRateMonitor", "GradientNormMonitor", "MemoryMonitor", "DeviceStatsMonitor", "ThroughputMonitor", "SpikeGuard",
             "EMAWeightAveraging", "CheckData", "CheckInit", "ModelSummary", "Timer"]
    logs, _ = machine.fit("callbacks", "digits/config.yaml", "--trainer.accelerator=cuda", "--trainer.max_epochs=3",
                          *[f"--trainer.callbacks+={name}" for name in names])
    with open(logs / "metrics.csv", encoding="utf-8") as file:
        columns = next(csv.reader(file))
    return f"{len(columns)} columns, such as " + ", ".join([each for each in columns if "alloc" in each or "memory" in each][:3])


@check("`profiler: torch` writes what the GPU did")
def profiler(machine):
    logs, _ = machine.fit("profiler", "digits/config.yaml", "--trainer.accelerator=cuda", "--trainer.max_epochs=1", "--trainer.profiler=torch")
    traces = list(logs.glob("*.trace.json"))
    need(traces, f"no trace among {[path.name for path in logs.iterdir()]}")
    text = traces[0].read_text(encoding="utf-8", errors="replace")
    kernels = len(re.findall(r'"cat": ?"kernel"', text))
    need(kernels > 0, f"no kernel in {len(text)} characters")
    return f"{kernels} kernels"


@check("`profiler: nvtx` marks hooks and operators")
def ranges(machine):
    flags = ["--trainer.accelerator=cuda", "--trainer.max_epochs=1", "--trainer.profiler=nvtx", "--trainer.profiler.operators=true"]
    logs, _ = machine.fit("ranges", "digits/config.yaml", *flags)
    return f"val_loss {column(logs, 'val_loss')[-1]}; Nsight Systems shows them"


@check("one rank over NCCL, and the same weights as without")
def nccl_alone(machine):
    environment = dict(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29611")
    flags = ["--trainer.accelerator=cuda", "--trainer.deterministic=true", "--trainer.max_epochs=2"]
    alone, _ = machine.fit("alone", "digits/config.yaml", *flags)
    ranks, output = machine.fit("nccl", "digits/config.yaml", "--trainer.strategy=ddp", *flags, **environment)
    return f"val_loss {furthest(column(ranks, 'val_loss'), column(alone, 'val_loss')):.1e} apart; " + \
        next((line for line in output.splitlines() if "nccl" in line.lower()), "nccl is not mentioned")[:100]


def wait_until(holds, processes):
    """Or until one of the processes has ended, or a minute is over."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not holds() and all(process.poll() is None for process in processes):
        time.sleep(0.2)


def two_ranks(machine, name, port, *flags, status=0, kill=None):
    """Two ranks that share the GPU, each as if alone on its host; gives the first one's folder and both outputs."""
    folders = [pathlib.Path(tempfile.mkdtemp(prefix=f"gpu-check-{name}-")) for _ in range(2)]
    ranks = []
    for rank in range(2):
        environment = dict(machine.environment, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", GROUP_RANK=str(rank),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        command = [str(machine.build / "bin/levin"), "fit", "--config", "examples/digits/config.yaml", "--trainer.accelerator=cuda",
                   "--trainer.strategy=ddp", "--trainer.devices=1", "--trainer.num_nodes=2", f"--trainer.default_root_dir={folders[0]}",
                   "--data.batch_size=16", *flags]
        ranks.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    if kill is not None:
        wait_until(lambda: list(folders[0].glob("logs/*/metrics.csv")), ranks)
        time.sleep(1)
        ranks[kill].send_signal(signal.SIGKILL)
    outputs = []
    for rank, process in enumerate(ranks):
        try:
            outputs.append(process.communicate(timeout=120)[0])
        except subprocess.TimeoutExpired:
            process.kill()
            outputs.append(process.communicate()[0] + "\nTIMEOUT")
        with open(machine.out / "outputs.txt", "a", encoding="utf-8") as file:
            file.write(f"\n===== {name}, rank {rank}\n{outputs[-1][-8000:]}\n----- status {process.returncode}\n")
    if status is not None:
        need(all(process.returncode == status for process in ranks), f"statuses {[p.returncode for p in ranks]}: " + outputs[0][-300:] + outputs[1][-300:])
    return folders[0] / "logs" / "version_0", outputs, [process.returncode for process in ranks]


@check("two ranks share the GPU over Gloo, with the losses of one")
def two_ranks_gloo(machine):
    flags = ["--model.dropout=0", "--trainer.max_epochs=2"]
    logs, _, _ = two_ranks(machine, "two_ranks", 29621, "--trainer.strategy.process_group_backend=gloo", *flags)
    alone, _ = machine.fit("one_rank", "digits/config.yaml", "--trainer.accelerator=cuda", *flags)
    return f"val_loss {furthest(column(logs, 'val_loss'), column(alone, 'val_loss')):.1e} apart"


@check("two ranks on one GPU over NCCL, which refuses that: an error on both that says why")
def two_ranks_nccl(machine):
    _, outputs, statuses = two_ranks(machine, "two_ranks_nccl", 29631, "--trainer.max_epochs=1", status=None)
    need(all("TIMEOUT" not in output for output in outputs), "it hangs")
    error = next((line for line in outputs[0].splitlines() if "error" in line.lower()), outputs[0][-200:])
    return f"statuses {statuses}: {error[:200]}"


@check("a rank that is killed ends the other")
def killed(machine):
    _, outputs, statuses = two_ranks(machine, "killed", 29641, "--trainer.strategy.process_group_backend=gloo", "--trainer.max_epochs=2000", status=None, kill=1)
    need("TIMEOUT" not in outputs[0], "the other continues")
    error = next((line for line in outputs[0].splitlines() if "error" in line.lower()), outputs[0][-200:])
    return f"statuses {statuses}: {error[:200]}"


def two_gpus(machine):
    if len(machine.gpus) < 2:
        raise NotRun("it needs two GPUs")
    return ",".join(machine.gpus[:2])


@check("a rank on each GPU that is visible over NCCL, with the losses of one rank")
def several_gpus(machine):
    visible, flags = two_gpus(machine), ["--model.dropout=0", "--trainer.max_epochs=2"]
    alone, _ = machine.fit("one_gpu", "digits/config.yaml", "--data.batch_size=32", *flags)
    logs, output = machine.fit("several_gpus", "digits/config.yaml", "--data.batch_size=16", "--trainer.devices=auto", *flags, CUDA_VISIBLE_DEVICES=visible)
    need("[rank 1] device cuda:1" in output, output[:400])
    return f"val_loss {furthest(column(logs, 'val_loss'), column(alone, 'val_loss')):.1e} apart"


@check("a rank of several GPUs that is killed ends the other, which waits in NCCL")
def killed_in_nccl(machine):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-killed-"))
    command = [str(machine.build / "bin/levin"), "fit", "--config", "examples/digits/config.yaml", f"--trainer.default_root_dir={folder}",
               "--trainer.devices=auto", "--trainer.max_epochs=100000"]
    with open(folder / "output", "w+", encoding="utf-8") as output, \
            subprocess.Popen(command, cwd=ROOT, env=dict(machine.environment, CUDA_VISIBLE_DEVICES=two_gpus(machine)), stdout=output, stderr=output) as run:
        def rank_1():
            return re.search(r"\[rank 1\] device cuda:1, process (\d+)", (folder / "output").read_text(encoding="utf-8"))
        wait_until(lambda: rank_1() and list(folder.glob("logs/*/metrics.csv")), [run])
        rank = rank_1()
        need(rank, "rank 1 does not begin")
        os.kill(int(rank.group(1)), signal.SIGKILL)
        try:
            status = run.wait(timeout=60)
        except subprocess.TimeoutExpired:
            run.kill()
            raise Failure("the other continues") from None
    printed = (folder / "output").read_text(encoding="utf-8")
    need("rank 1 failed" in printed, printed[-300:])
    return f"status {status}: {printed[printed.rfind('rank 1 failed'):][:200]}"


def fault(machine, kind):
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "config.yaml").write_text(f"plugins: [libgpu_faults.so]\nmodel: {{class_path: Faulty, init_args: {{fault: {kind}}}}}\n"
                                        "trainer: {accelerator: cuda, max_epochs: 2}\n", encoding="utf-8")
    output = machine.run(kind, ["levin", "fit", "--config", folder / "config.yaml", f"--trainer.default_root_dir={folder}"], status=None)
    error = output[output.rfind("error"):]
    return " ".join(error.split())[:700], output


@check("out of memory: an error that says what to do")
def out_of_memory(machine):
    error, output = fault(machine, "memory")
    need("batch_size" in output and "holds on cuda:0" in output, error)
    return error


@check("a label out of range: an error with the hook in which the GPU reported it")
def late_error(machine):
    error, output = fault(machine, "label")
    need("hook" in output or "training" in output or "backward" in output, error)
    return error


@timed("what 430 steps of digits ask of CUDA, with logging, bar, clipping and checkpoints")
def waits(machine):
    def counted(name, *flags):
        _, output = machine.fit(name, "digits/config.yaml", "--trainer.accelerator=cuda", "--trainer.max_epochs=12", "--plugins+=libgpu_waits.so",
                                "--trainer.callbacks+=CountWaits", "--trainer.log_every_n_steps=20", "--trainer.gradient_clip_val=1", *flags,
                                LD_PRELOAD=str(machine.build / "lib/levin/plugins/libgpu_calls.so"), LEVIN_SHOW_CUDA_WAITS="1")
        counts = dict(re.findall(r"(\w+)=(\d+)", re.search(r"(?m)^steps=.*", output).group(0)))
        return {key: int(value) for key, value in counts.items()}
    quiet, reading = counted("waits"), counted("waits-when-read", "--trainer.callbacks.init_args.reads=true")
    need(reading["steps_with_waits"] == reading["steps"], f"what counts does not count: {reading}")
    # Every 20 steps a boundary, and the bar that shows what it brought; validation and a checkpoint after 40.
    need(quiet["steps_with_waits"] <= quiet["steps"] // 10 + 2, str(quiet))
    return ", ".join(f"{key} {value}" for key, value in quiet.items())


@timed("µs of an MLP's step (64-256-256-10, batch 32, AdamW): levin with everything against the loop by hand")
def overhead(machine):
    sides = {"by hand": ("by_hand", "AdamW"), "by hand with LibTorch's AdamW": ("by_hand", "torch::optim::AdamW"), "Trainer": ("trainer", "AdamW"),
             "everything": ("everything", "AdamW"), "everything, recorded": ("graphed", "AdamW")}
    times = {side: [] for side in sides}
    for _ in range(ROUNDS):  # alternating: the machine is not equally fast all the time
        for side, arguments in sides.items():
            times[side].append(machine.step_time(*arguments, 1, "cuda"))
    ratio = {side: statistics.median(time / hand for time, hand in zip(times[side], times["by hand"])) for side in sides}
    return ", ".join(f"{side} {statistics.median(times[side]):.0f} ({ratio[side]:.2f} ×)" for side in sides)


def torch_folder(given):
    if given:
        return given
    found = subprocess.run(["python3", "-c", "import torch; print(torch.__path__[0])"], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode != 0:
        sys.exit("gpu-check: python3 has no torch; name a LibTorch with --torch")
    return found.stdout.strip()


def run_check(machine, entry):
    name, what, function = entry
    start = time.monotonic()
    try:
        result, text = "yes", function(machine)
    except NotRun as reason:
        result, text = "not run", str(reason)
    except Failure as failure:
        result, text = "**no**", str(failure)
    except Exception as error:  # a check that is wrong must not end the others
        result, text = "**no**", f"{type(error).__name__}: {error}"
    text = " ".join(str(text).split()).replace("|", "\\|")
    print(f"[{time.monotonic() - start:5.1f} s] {name}: {result} {text[:400]}", flush=True)
    return f"| {what} | {result} | {text} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--torch", default="")
    arguments = parser.parse_args()
    if not glob.glob("/dev/nvidia[0-9]*") and not os.path.exists("/dev/dxg"):
        print("gpu-check: this machine has no GPU; nothing is checked")
        sys.exit(77)
    os.makedirs(arguments.out, exist_ok=True)
    machine = Machine(arguments.build, torch_folder(arguments.torch), arguments.out)
    chosen = [name for name in arguments.only.split(",") if name]
    entries = [entry for entry in CHECKS if not chosen or entry[0] in chosen]
    with concurrent.futures.ThreadPoolExecutor(max_workers=5) as pool:
        rows = list(pool.map(lambda entry: run_check(machine, entry), entries))
    rows += [run_check(machine, entry) for entry in TIMED if not chosen or entry[0] in chosen]
    gpu = subprocess.run([shutil.which("nvidia-smi") or "true", "--query-gpu=name,driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True, check=False)
    report = [f"GPU: {gpu.stdout.strip()}", "", "| what | holds | seen |", "| --- | --- | --- |", *rows, ""]
    (pathlib.Path(arguments.out) / "gpu-report.md").write_text("\n".join(report), encoding="utf-8")
    sys.exit(1 if any("**no**" in row for row in rows) else 0)


if __name__ == "__main__":
    main()
