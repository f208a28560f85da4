"""What is compared: one row of the table each, and the commands that measure its sides."""
from dataclasses import dataclass, replace

LEVIN, BY_HAND = "levin", "by hand, LibTorch"
PYTORCH, LIGHTNING, ACCELERATE, DATALOADER = "by hand, PyTorch", "Lightning", "Accelerate", "torch DataLoader"


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a command, and what of a run of it is the sample (readings.py)."""
    name: str
    command: tuple
    reads: str = "value"
    slow: bool = False  # too slow for a quick run
    is_peer: bool = False

    @property
    def needs_peers(self):
        return self.command[0] == "{python}"


@dataclass(frozen=True)
class Row:
    """`kind` says what is made of neighbouring samples of levin and the baseline:
    ratio (levin over baseline), speed (baseline over levin), difference, or value (levin's alone)."""
    key: str
    what: str
    target: str
    kind: str
    limit: float
    levin: Side = None
    baseline: Side = None
    peers: tuple = ()
    unit: str = ""
    at_least: bool = False
    scale: float = 1  # what a ratio is divided by: ranks over cores
    rounds: float = 1  # so many times the usual number of rounds
    short: str = ""  # in the picture, instead of `what`
    note: str = ""
    package: str = ""  # of which network a package of levin_train.export() is needed
    data: str = ""  # the script in peers/ that makes a folder of data, and its name


def program(name, *arguments):
    return (f"{{bin}}/{name}", *arguments)


def peer(script, *arguments):
    return ("{python}", f"{{source}}/peers/{script}", *arguments)


def torchrun(ranks, script, *arguments):
    return ("{python}", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}",
            f"{{source}}/peers/{script}", *arguments)


def step(side, optimizer="torch::optim::Adam", ranks=1):
    return program("step_overhead", side, optimizer, str(ranks))


def peer_side(name, command, **more):
    return Side(name, command, is_peer=True, **more)


FIRST_STEP = (
    "{bin}/levin", "fit", "--config={examples}/digits/config.yaml", "--plugin={lib}/libfirst_step_clock.so",
    "--trainer.callbacks+=FirstStepClock", "--trainer.max_epochs=null", "--trainer.max_steps=1")
FIRST_STEP_BY_HAND = program("first_step_by_hand")
SGD = "torch::optim::SGD"
ONE_PROCESS = Side("one process", step("trainer"))
ONE_LIGHTNING = "Lightning, one process"


def ranks_side(ranks):
    return Side(f"{ranks} ranks", step("trainer", ranks=ranks))


def all_reduce(size, size_text, limit, unit_of_limit):
    return Row(
        key=f"all_reduce_{size}", what=f"all-reduce of {size_text} between two ranks", target=f"≤ {unit_of_limit}",
        kind="value", limit=limit, unit="µs",
        levin=Side(LEVIN, ("{bin}/levin", "bench", "comm", "--trainer.devices=2", "--trainer.accelerator=cpu",
                           f"--min_bytes={size}", f"--max_bytes={size}", "--csv=comm.csv"), reads="all_reduce"),
        peers=(peer_side("Gloo, PyTorch", torchrun(2, "all_reduce.py", str(size))),))


def large_model(strategy, network, reads="value", name=None, ranks=2):
    return Side(name or strategy, program("large_model", strategy, network, str(ranks)), reads=reads, slow=network == "layers_2048")


def checkpoint_memory(strategy, millions, network):
    return Row(
        key=f"{strategy}_checkpoint_memory_{millions}", short=f"{millions} M weights, {strategy}: memory of a checkpoint / its file",
        what=f"{millions} million weights, two ranks, {strategy}: what rank 0 takes at the peak while ModelCheckpoint writes, over the file",
        target="≤ 1.02 ×, a copy", kind="value", limit=1.02, rounds=0.3, unit="×",
        levin=Side(LEVIN, program("large_model", strategy, network, "2", "checkpoint"), reads="copies", slow=network == "layers_2048"))


def large_model_rows(millions, network):
    """Two ranks with AdamW: 24 square linear layers, batches of 32 a rank, one thread each."""
    state_megabytes = millions * 2 * 4
    fused = peer_side("the same, fused, gradient_as_bucket_view",
                      torchrun(2, "large_model.py", network, "--fused", "--bucket-view"))
    return [
        Row(key=f"large_{millions}", short=f"{millions} M weights, two ranks' step / PyTorch DDP",
            what=f"{millions} million weights, two ranks, AdamW: a step with ddp over PyTorch's DistributedDataParallel",
            target="≤ 0.85 ×", kind="ratio", limit=0.85, rounds=0.5, unit="ms", levin=large_model("ddp", network, name=LEVIN),
            baseline=peer_side("DDP by hand, PyTorch", torchrun(2, "large_model.py", network)), peers=(fused,)),
        Row(key=f"sharded_{millions}", short=f"{millions} M weights, ddp_sharded's step / ddp's",
            what=f"{millions} million weights, two ranks: a step with ddp_sharded over one with ddp", target="≤ 1.15 ×",
            kind="ratio", limit=1.15, rounds=0.5, unit="ms", levin=large_model("ddp_sharded", network),
            baseline=large_model("ddp", network)),
        Row(key=f"sharded_memory_{millions}", short=f"{millions} M weights, memory that ddp_sharded saves",
            what=f"{millions} million weights, two ranks: peak memory of a rank with ddp, less that with ddp_sharded",
            target=f"≥ {0.9 * state_megabytes / 2:.0f} MB, 0.9 of half of the state", kind="difference",
            limit=0.9 * state_megabytes / 2, at_least=True, rounds=0.3, unit="MB",
            levin=large_model("ddp", network, reads="peak"), baseline=large_model("ddp_sharded", network, reads="peak")),
        *(checkpoint_memory(strategy, millions, network) for strategy in ("ddp", "ddp_sharded")),
    ]


def activation_checkpointing():
    """24 layers of 256 units, batches of 8,192: activations of 8 MB each; of six segments five inputs and one's layers stay."""
    whole = large_model("trainer", "wide_batch", name="all stored", ranks=1)
    segments = large_model("trainer", "wide_batch_segments", name=LEVIN, ranks=1)

    def peak(side):  # glibc's malloc otherwise retains what a step frees
        return replace(side, command=("env", "MALLOC_MMAP_THRESHOLD_=1000000", *side.command), reads="peak")

    return [
        Row(key="segments_memory", short="memory that checkpointed segments save",
            what="24 layers, 200 MB of activations, MALLOC_MMAP_THRESHOLD_=1000000: peak memory less that in six checkpointed segments",
            target="≥ 100 MB", kind="difference", limit=100, at_least=True, rounds=0.5, unit="MB", levin=peak(whole),
            baseline=peak(segments)),
        Row(key="segments_time", short="a step in checkpointed segments / all stored",
            what="24 layers: a step in six checkpointed segments over one that stores all", target="≤ 1.4 ×", kind="ratio",
            limit=1.4, rounds=0.5, unit="ms", levin=segments, baseline=whole),
    ]


def compute_bound(network, what):
    def side(name, kind):
        threads = ("env", "-u", "OMP_NUM_THREADS", "-u", "MKL_NUM_THREADS")  # as many as there are by default
        return Side(name, (*threads, *program("large_model", kind, network)))

    return Row(key=network, short=f"{what}'s step / by hand", what=f"{what}, one rank, default threads: a step over the loop by hand",
               target="≤ 1.00 ×", kind="ratio", limit=1.0, unit="ms", levin=side(LEVIN, "trainer"),
               baseline=side(BY_HAND, "by_hand"), note="By hand with torch::optim::AdamW.")


def exported(network, what, target, limit, baseline_name=BY_HAND):
    """A step of a package of Python's levin_train.export() under the Trainer, over another way to train the same network."""
    by_hand = Side(BY_HAND, program("exported_step", "by_hand", network))
    compiled = peer_side("torch.compile, PyTorch", peer("exported_networks.py", "compile", network))
    others = (peer_side(PYTORCH, peer("exported_networks.py", "eager", network)),
              peer_side(LIGHTNING, peer("exported_networks.py", "lightning", network), slow=True))
    baseline, first = (by_hand, compiled) if baseline_name == BY_HAND else (compiled, replace(by_hand, is_peer=True))
    return Row(key=f"exported_{network}", short=f"{what} from Python, step / {baseline.name}",
               what=f"{what}, exported from Python, AdamW, batch 32, one thread: a step under the Trainer with everything on; over "
               f"{baseline.name}", target=target, kind="ratio", limit=limit, unit="ms", rounds=0.5, package=network,
               levin=Side(LEVIN, program("exported_step", "package", network, "{packages}/" + network + ".pt2")),
               baseline=baseline, peers=(first, *others),
               note="AdamW is torch::optim::AdamW by hand, and fused in PyTorch by hand and with torch.compile.")


def logger(name, how=""):
    return Row(key=name, short=f"MLP step with {name} / without",
               what=f"the MLP's step with everything on and {name}{how}, over the same without it", target="≤ 1.05 ×", kind="ratio",
               limit=1.05, unit="µs", levin=Side(name, step(name)), baseline=Side("CSVLogger alone", step("everything")))


def images(workers):
    cores = "one core" if workers == 1 else f"{workers} cores"
    return Row(key=f"images_{workers}", short=f"images a second, {cores}: levin / torchvision",
               what=f"JPEG files of 500 × 375: decoded, RandomResizedCrop(224), flipped, normalized, in batches; {workers} worker"
               f"{'s' if workers > 1 else ''}: images a second over torchvision's with torch's DataLoader", target="≥ 1.5 ×", kind="speed",
               limit=1.5, at_least=True, unit="s", rounds=0.5, data="images",
               levin=Side(LEVIN, program("images_benchmark", "{images}", str(workers))),
               baseline=peer_side("torchvision", peer("images.py", "{images}", str(workers))))


def shards(workers):
    return Row(key=f"shards_{workers}", short=f"samples of shards, {workers} workers: levin / webdataset",
               what=f"20,000 samples of 1 kB in ten tar files, shuffled, made tensors, in batches; {workers} workers: samples a second over "
               "webdataset's with torch's DataLoader", target="≥ 1.5 ×", kind="speed", limit=1.5, at_least=True, unit="s", rounds=0.5, data="shards",
               levin=Side(LEVIN, program("shards_benchmark", "{shards}", str(workers))),
               baseline=peer_side("webdataset", peer("shards.py", "{shards}", str(workers))))


def from_files(data, peer_name, short, what):
    """Rows or texts a second, over a package of Python."""
    return Row(key=data, short=f"{short}: levin / {peer_name}", what=f"{what}, over {peer_name}'s", target="≥ 1.5 ×", kind="speed", limit=1.5,
               at_least=True, unit="s", rounds=0.5, data=data, levin=Side(LEVIN, program(f"{data}_benchmark", "{" + data + "}")),
               baseline=peer_side(peer_name, peer(f"{data}.py", "{" + data + "}", "run")))


def report_row(key, what, target, limit, unit, reads):
    return Row(key=key, what=f"levin report, a run of 1,000,000 rows × 100 metrics and 64 ranks: {what}", short=f"report: {what}",
               target=target, kind="value", limit=limit, unit=unit, rounds=0.1,
               levin=Side(LEVIN, ("python3", "{source}/large_report.py", "{bin}/levin"), reads=reads, slow=True))


def exported_rows():
    one = Side("one process", program("exported_step", "package", "mlp", "{packages}/mlp.pt2"))
    return [
        exported("mlp", "MLP", "≤ 0.5 ×", 0.5),
        exported("resnet", "small ResNet", "≤ 1.0 ×", 1.0, "torch.compile"),
        exported("transformer", "character transformer", "≤ 1.0 ×", 1.0, "torch.compile"),
        exported("lstm", "LSTM", "≤ 1.0 ×", 1.0, "torch.compile"),
        Row(key="exported_two_ranks", short="MLP from Python, two ranks' step / one process",
            what="the exported MLP on two ranks: a step over the one-process step", target="≤ 1.5 ×", kind="ratio", limit=1.5, unit="ms",
            package="mlp", levin=Side("2 ranks", program("exported_step", "package", "mlp", "{packages}/mlp.pt2", "2")), baseline=one),
        Row(key="exported_loading", short="loading of a package", what="the exported MLP: until the package and its code are loaded",
            target="≤ 0.3 s", kind="value", limit=0.3, unit="s", rounds=0.5, package="mlp", levin=replace(one, name=LEVIN, reads="loading")),
        Row(key="exported_memory", short="transformer from Python, peak memory / by hand",
            what="character transformer, exported from Python: peak memory over that by hand", target="≤ 1.0 ×", kind="ratio", limit=1.0,
            unit="MB", rounds=0.5, package="transformer",
            levin=Side(LEVIN, program("exported_step", "package", "transformer", "{packages}/transformer.pt2"), reads="peak"),
            baseline=Side(BY_HAND, program("exported_step", "by_hand", "transformer"), reads="peak")),
    ]


def more_ranks_than_cores(ranks, cores):
    return Row(
        key=f"ranks_{ranks}", short=f"{ranks} ranks' step / one process",
        what=f"{ranks} ranks: a step over ranks / cores × the one-process step", target="≤ 1.15 ×",
        kind="ratio", limit=1.15, levin=ranks_side(ranks), baseline=ONE_PROCESS, scale=max(1.0, ranks / cores))


def all_rows(cores):
    """`cores`: that this machine has, which rows with more ranks than cores count with."""
    return [
        Row(key="step", short="MLP step, everything on / by hand",
            what="step of the 64-256-256-10 MLP, batch 32, one thread: Trainer with 10 logged metrics, CSVLogger, "
            "progress bar, EarlyStopping, ModelCheckpoint each epoch; over the loop by hand that logs and saves nothing",
            target="≤ 1.02 ×", kind="ratio", limit=1.02, rounds=2,
            levin=Side(LEVIN, step("everything")), baseline=Side(BY_HAND, step("by_hand")),
            peers=(Side("by hand, LibTorch, that logs and saves", step("by_hand_saving"), is_peer=True),
                   peer_side(PYTORCH, peer("training.py", "pytorch")),
                   peer_side(LIGHTNING, peer("training.py", "lightning")),
                   peer_side(ACCELERATE, peer("training.py", "accelerate"))),
            note="Adam is torch::optim::Adam on both sides. Peers in Python log and save each epoch too."),
        Row(key="adamw", short="MLP step with AdamW / by hand",
            what="the same step with AdamW, over the loop by hand with torch::optim::AdamW",
            target="≤ 0.80 ×", kind="ratio", limit=0.80, rounds=2,
            levin=Side(LEVIN, step("everything", "AdamW")), baseline=Side(BY_HAND, step("by_hand", "torch::optim::AdamW"))),
        Row(key="session_step", short="step of a Session, added to the Trainer's",
            what="the step of one layer 64-10, batch 32, with SGD, in a loop of the caller's, Session::step(): added to the Trainer's own",
            target="≤ 2 µs", kind="difference", limit=2, unit="µs", rounds=3, levin=Side("Session", step("small_session", SGD)),
            baseline=Side("Trainer", step("small_trainer", SGD)),
            peers=(Side(BY_HAND, step("small_by_hand", SGD), is_peer=True),
                   peer_side("Fabric", peer("training.py", "fabric", "--small")),
                   peer_side(PYTORCH, peer("training.py", "pytorch", "--small")))),
        Row(key="predict", short="Predictor::predict(), added to forward()",
            what="one row through the MLP 64-256-256-10 by Predictor::predict(), one thread: added to its forward() without gradients",
            target="≤ 1 µs", kind="difference", limit=1, unit="µs", rounds=3, levin=Side("Predictor", program("predict", "predictor")),
            baseline=Side("forward()", program("predict", "forward"))),
        Row(key="live", short="MLP step on a live terminal / in a file",
            what="the same step on a terminal with the live view, over progress in a file", target="≤ 1.01 × (and 3 % of noise)",
            kind="ratio", limit=1.04, rounds=2, levin=Side("live", step("live")), baseline=Side("in a file", step("everything"))),
        Row(key="start", short="start to first step / smallest program",
            what="process start to the end of the first step of the digits example, over the smallest LibTorch "
            "program that takes one step", target="≤ 1.3 ×", kind="ratio", limit=1.3, rounds=2,
            levin=Side(LEVIN, FIRST_STEP, reads="started"),
            baseline=Side("smallest program", FIRST_STEP_BY_HAND, reads="started"),
            peers=(peer_side(LIGHTNING, peer("training.py", "lightning", "--first-step"), reads="started"),),
            note="levin reads its configuration, a plug-in and the data, and validates two batches before. Lightning: the MLP."),
        Row(key="memory", short="peak memory / smallest program",
            what="peak memory of that run, over that program's", target="≤ 1.15 ×", kind="ratio", limit=1.15,
            levin=Side(LEVIN, FIRST_STEP, reads="peak_memory"),
            baseline=Side("smallest program", FIRST_STEP_BY_HAND, reads="peak_memory"),
            peers=(peer_side(LIGHTNING, peer("training.py", "lightning", "--first-step"), reads="peak_memory"),)),
        Row(key="two_ranks", short="two ranks' step / one process",
            what="two ranks on one host, same MLP: a step over the one-process step", target="≤ 1.4 ×",
            kind="ratio", limit=1.4, rounds=2, levin=ranks_side(2), baseline=ONE_PROCESS,
            peers=(peer_side("DDP by hand, PyTorch", torchrun(2, "training.py", "ddp", "--ranks=2")),
                   peer_side(LIGHTNING, peer("training.py", "lightning", "--ranks=2"), slow=True)),
            note="Each rank has a batch of 32. Peers, too, are divided by levin's one-process step."),
        all_reduce(64, "64 B", 8, "8 µs"),
        all_reduce(1 << 20, "1 MB", 400, "0.4 ms"),
        Row(key="synced_metrics", short="20 metrics with sync_dist, added to a step",
            what="20 metrics with sync_dist on every step of two ranks: added to a step",
            target="≤ 60 µs", kind="difference", limit=60, unit="µs", rounds=2,
            levin=Side("20 metrics", program("synced_metrics", "2", "20")),
            baseline=Side("no metric", program("synced_metrics", "2", "0")),
            peers=(peer_side(LIGHTNING, peer("training.py", "lightning", "--ranks=2", "--synced-metrics=20"), slow=True),),
            note="The peer's whole step is compared with levin's step without metrics."),
        Row(key="metric_objects", short="20 metric objects, added to a step",
            what="20 metric objects (Accuracy over 10 classes), updated and merged over two ranks on every step: added to a step",
            target="≤ 60 µs", kind="difference", limit=60, unit="µs", rounds=2,
            levin=Side("20 objects", program("synced_metrics", "2", "20", "objects")),
            baseline=Side("no metric", program("synced_metrics", "2", "0"))),
        Row(key="loader", short="loader alone / index_select",
            what="epoch over 1,000,000 samples in memory, batch 256, shuffled, loader alone, no workers; over "
            "index_select on the whole table", target="≤ 1.5 ×", kind="ratio", limit=1.5,
            levin=Side(LEVIN, program("loader_benchmark", "0")),
            baseline=Side("index_select", program("loader_benchmark", "index_select")),
            peers=(peer_side(DATALOADER, peer("loader.py", "0"), slow=True),)),
        Row(key="loader_workers", short="loader, two workers / none",
            what="the same with two workers, over no workers", target="≤ 1.0 × (and 5 % of noise)", kind="ratio",
            limit=1.05, levin=Side("two workers", program("loader_benchmark", "2")),
            baseline=Side("no workers", program("loader_benchmark", "0")),
            note="Batches that are copied faster than a thread hands them over are read without workers on both sides."),
        images(1),
        images(2),
        shards(0),
        shards(2),
        from_files("columns", "pandas", "Parquet, to the end of an epoch",
                   "200,000 rows of a Parquet file, read, standardized, texts made numbers, and shuffled in batches of 256, one thread: rows a "
                   "second"),
        from_files("texts", "tokenizers", "tokens of texts", "tokens of 10 MB of texts, by byte-level BPE, one thread: texts a second"),
        Row(key="csv", short="CSV row, a new metric every 10 rows",
            what="CSV row with a new metric every 10 rows up to row 100,000, on the training thread",
            target="≤ 2 µs", kind="value", limit=2, unit="µs",
            levin=Side(LEVIN, program("csv_logger_benchmark", "new_metrics")),
            peers=(peer_side(LIGHTNING, peer("csv_logger.py", "2000")),), note="Lightning: up to row 2,000."),
        Row(key="checkpoint_write", short="1 GB checkpoint, dd's speed / its own",
            what="checkpoint of 1 GB: speed over that of dd with fsync", target="≥ 0.8 ×",
            kind="speed", limit=0.8, at_least=True, rounds=0.5, levin=Side(LEVIN, program("checkpoint_file", "save")),
            baseline=Side("dd", ("dd", "if=/dev/zero", "of=dd.bin", "bs=1M", "count=1024", "conv=fsync"), reads="seconds")),
        Row(key="checkpoint_wait", short="1 GB checkpoint, step waits / memcpy",
            what="checkpoint of 1 GB: what the step waits, over one memcpy", target="≤ 1.2 ×",
            kind="ratio", limit=1.2, rounds=0.5, levin=Side(LEVIN, program("checkpoint_file", "hand_over")),
            baseline=Side("memcpy", program("checkpoint_file", "memcpy"))),
        *large_model_rows(25, "layers_1024"),
        *large_model_rows(100, "layers_2048"),
        compute_bound("convolutions", "convolutional network"),
        compute_bound("transformer", "character transformer"),
        Row(key="averaged", short="transformer's step, averaged / not",
            what="character transformer of 1.8 million weights, one rank: a step with EMAWeightAveraging over one without",
            target="≤ 1.03 ×", kind="ratio", limit=1.03, unit="ms", rounds=2,
            levin=Side("averaged", program("large_model", "averaged", "transformer")),
            baseline=Side("not averaged", program("large_model", "trainer", "transformer"))),
        *activation_checkpointing(),
        *exported_rows(),
        logger("TensorBoardLogger"),
        logger("MLflowLogger", " whose server does not answer"),
        logger("WandbLogger", ", offline"),
        report_row("report_time", "seconds on one core", "≤ 10 s", 10, "s", "value"),
        report_row("report_size", "size of the page", "≤ 5 MB", 5, "MB", "megabytes"),
        more_ranks_than_cores(4, cores),
        more_ranks_than_cores(8, cores),
        Row(key="scale", short="boundary's work, 1,024 ranks / 8",
            what="work of a rank at a boundary with 20 metrics, a byte that it gets: 1,024 simulated ranks over 8",
            target="≤ 3.3 × (log 1,024 / log 8)", kind="value", limit=10 / 3, unit="×", rounds=0.25,
            levin=Side(LEVIN, program("scale"), reads="scale")),
        Row(key="scale_of_objects", short="20 metric objects, 64 ranks / 2",
            what="work of a rank at a boundary with 20 metric objects: 64 simulated ranks over 2",
            target="≤ 6 × (log 64 / log 2)", kind="value", limit=6, unit="×", rounds=0.25,
            levin=Side(LEVIN, program("scale"), reads="scale_of_objects")),
        Row(key="cuda_graph", what="whole step captured in a CUDA graph, over the eager step", target="–", kind="ratio", limit=1,
            note="Needs a GPU."),
        Row(key="prefetch", what="pinned memory and copies during the computation, over plain copies", target="–", kind="ratio",
            limit=1, note="Needs a GPU."),
    ]
