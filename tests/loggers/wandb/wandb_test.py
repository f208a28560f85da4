"""Has W&B's own programs read and upload what WandbLogger writes, and it speak to wandb-core: wandb_test.py LEVIN SOURCE PLUGIN"""
import csv
import hashlib
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

import wandb
from wandb.proto import wandb_internal_pb2

from wandb_server import Server

LEVIN, SOURCE, PLUGIN = sys.argv[1:4]
BIN = pathlib.Path(sys.executable).parent
CORE = pathlib.Path(wandb.__file__).parent / "bin" / "wandb-core"
KEY = "0123456789" * 4
FIGURES = ("confusion", "roc", "accuracy")
LOGGERS = ("--trainer.logger=[{class_path: CSVLogger, init_args: {version: %s}}, {class_path: WandbLogger, init_args: {project: digits, "
           "name: first, tags: [small], %s}}]")


def environment(home, server=None, **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    if server is not None:
        more |= {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY, "WANDB_CORE": str(CORE)}
    return kept | {"HOME": str(home), "WANDB_ERROR_REPORTING": "false"} | more


def command(root, options, *more, version="null", epochs=2, config="config.yaml"):
    return [LEVIN, "fit", "--config", f"{SOURCE}/examples/digits/{config}", "--plugin", PLUGIN,
            f"--trainer.default_root_dir={root}", f"--trainer.max_epochs={epochs}", "--trainer.limit_train_batches=12",
            "--trainer.limit_val_batches=2", "--trainer.log_every_n_steps=3", "--trainer.enable_progress_bar=false",
            "--trainer.accelerator=cpu", LOGGERS % (version, options), "--trainer.callbacks+=ShownItems", *more]


def fit(root, options="offline: true", *more, env=None, **how):
    said = subprocess.run(command(root, options, *more, **how), cwd=SOURCE, capture_output=True, text=True, timeout=300,
                          env=env or environment(root))
    if said.returncode != 0:
        raise AssertionError(f"{said.args}\n{said.stdout}\n{said.stderr}")
    return said.stdout + said.stderr


def sync(root, server, *folders, whole=True):
    said = subprocess.run([BIN / "wandb", "sync", *map(str, folders)], cwd=root, capture_output=True, text=True, timeout=300,
                          env=environment(root, server))
    if ("Finished syncing" if whole else "ends with an incomplete record") not in said.stderr:
        raise AssertionError(f"{said.args}\n{said.stdout}\n{said.stderr}")


def eventually(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError("it did not happen in time")
        time.sleep(0.05)


def children_of(parent, name):
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            named, rest = (process / "stat").read_text().rsplit(")", 1)
        except OSError:  # it has ended
            continue
        if named.endswith(f"({name}") and int(rest.split()[1]) == parent:
            found.append(int(process.name))
    return found


def folders(root):
    """Of runs, the oldest first."""
    return sorted((entry for entry in (root / "wandb").glob("*run-*-*") if not entry.is_symlink()),
                  key=lambda entry: entry.name.removeprefix("offline-"))


def records(folder):
    """Those of the run file, whose framing this reads for itself: LevelDB's log, with the CRC-32 of zlib."""
    data = next(folder.glob("*.wandb")).read_bytes()
    assert data[:7] == b":W&B\xe1\xbe\x00"
    found, part, at = [], b"", 7
    while at < len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
        if at + 7 > len(data):
            break
        crc, size, kind = struct.unpack("<IHB", data[at:at + 7])
        chunk = data[at + 7:at + 7 + size]
        if len(chunk) < size:
            break
        assert crc == zlib.crc32(bytes([kind]) + chunk)
        part = chunk if kind in (1, 2) else part + chunk
        at += 7 + size
        if kind in (1, 4):
            found.append(wandb_internal_pb2.Record.FromString(part))
    return found


def rows_of_file(folder):
    return [{item.key: json.loads(item.value_json) for item in record.history.item}
            for record in records(folder) if record.WhichOneof("record_type") == "history"]


def table(run):
    with open(run / "metrics.csv", newline="") as text:
        return list(csv.DictReader(text))


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.server = Server()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(self.server.close)

    def assert_same_as_csv(self, history, csv_rows):
        """Each row of the table is a row of W&B's history, in this order, and all others are items."""
        numbers = [row for row in history if "epoch" in row]
        self.assertEqual(len(numbers), len(csv_rows))
        for row, expected in zip(numbers, csv_rows):
            values = {name: float(value) for name, value in expected.items() if value != ""}
            values["trainer/global_step"] = values.pop("step")
            self.assertEqual({name: value for name, value in row.items() if not name.startswith("_")}, values)
        self.assertEqual([row["_step"] for row in history], list(range(len(history))))
        times = [row["_timestamp"] for row in history]
        self.assertEqual(times, sorted(times))

    def assert_whole(self, run, version):
        """What a whole run of two epochs has on the server."""
        csv_rows = table(version)
        self.assertGreater(len(csv_rows), 8)
        self.assert_same_as_csv(run.history, csv_rows)
        self.assertEqual(run.exit_code, 0)
        self.assertEqual((run.variables["project"], run.variables["displayName"], run.variables["tags"]), ("digits", "first", ["small"]))
        self.assertEqual(run.config["model"]["lr"], 0.002)
        self.assertEqual(run.config["model"]["channels"], 32)
        last = [row["val_loss"] for row in csv_rows if row["val_loss"] != ""][-1]
        self.assertEqual(run.summary["val_loss"], float(last))
        self.assertEqual(run.summary["_step"], len(run.history) - 1)
        axes = {entry["1"]: entry.get("5") for entry in run.config["_wandb"]["m"]}
        step = [entry["1"] for entry in run.config["_wandb"]["m"]].index("trainer/global_step") + 1
        for name in ("train_loss", "val_loss", "epoch", "digits", "ramp"):
            self.assertEqual(axes[name], step)
        self.assert_items(run, version)
        self.assertIn("levin", json.loads(run.files["wandb-metadata.json"])["program"])

    def assert_items(self, run, version):
        shown = {}
        for row in run.history:
            for name, value in row.items():
                if isinstance(value, dict):
                    shown.setdefault(name, []).append((row["trainer/global_step"], value))
        self.assertEqual({name: len(items) for name, items in shown.items()},
                         {name: 2 for name in ("ramps/grey", "ramps/colours", "digits", "note", "errors", "ramp", *FIGURES)})
        for name, items in shown.items():
            for _, value in items:
                if value["_type"] != "histogram":
                    content = run.files[value["path"]]
                    self.assertEqual((len(content), hashlib.sha256(content).hexdigest()), (value["size"], value["sha256"]))
        for step, value in shown["ramps/colours"]:
            self.assertEqual((value["_type"], value["format"], value["width"], value["height"]), ("image-file", "png", 5, 2))
            kept = version / "media/images/ramps/colours" / f"{step:06}.png"
            self.assertEqual(run.files[value["path"]], kept.read_bytes())
        for name in FIGURES:
            for step, value in shown[name]:
                self.assertEqual(run.files[value["path"]], (version / "media/figures" / name / f"{step:06}.png").read_bytes())
        for epoch, (_, value) in enumerate(shown["ramp"]):
            self.assertEqual((sum(value["values"]), len(value["bins"]), value["bins"][0], value["bins"][-1]), (101, 65, epoch, epoch + 100))
            self.assertEqual(len(value["values"]), 64)
        self.assertIn(b"epoch **1** of rank 0", run.files[shown["note"][1][1]["path"]])
        _, value = shown["errors"][1]
        self.assertEqual(json.loads(run.files[value["path"]]), {"columns": ["image", "label"], "data": [[12, "seven"], [1, "three"]]})
        self.assertEqual((value["_type"], value["ncols"], value["nrows"]), ("table-file", 2, 2))
        self.assertEqual([content for path, content in run.files.items() if "notes_0.txt" in path], [b"of rank 0"] * 2)


class Offline(Base):
    def test_the_run_file_has_every_value_and_wandb_sync_uploads_all(self):
        said = fit(self.root, "offline: true, log_model: true")
        folder, = folders(self.root)
        self.assertTrue(folder.name.startswith("offline-run-"))
        self.assertIn(f"wandb sync {folder}", said)
        version = self.root / "logs/version_0"
        self.assert_same_as_csv(rows_of_file(folder), table(version))
        self.assertEqual(records(folder)[-1].exit.exit_code, 0)
        sync(self.root, self.server, folder)
        run, = self.server.runs.values()
        self.assertEqual(run.name, (version / "wandb_run.txt").read_text().strip())
        self.assert_whole(run, version)
        for file in (version / "checkpoints").iterdir():
            if not file.is_symlink():
                self.assertEqual(run.files[f"checkpoints/{file.name}"], file.read_bytes())

    def test_a_run_that_is_killed_loses_nothing_and_its_torn_file_syncs(self):
        process = subprocess.Popen(command(self.root, "offline: true", epochs=100000), cwd=SOURCE, env=environment(self.root),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        metrics = self.root / "logs/version_0/metrics.csv"
        eventually(lambda: metrics.exists() and len(table(metrics.parent)) > 20)
        process.send_signal(signal.SIGKILL)
        process.wait()
        csv_rows = table(metrics.parent)
        folder, = folders(self.root)
        rows = rows_of_file(folder)
        numbers = [row for row in rows if "epoch" in row]
        self.assertGreaterEqual(len(numbers), len(csv_rows))
        file = next(folder.glob("*.wandb"))
        file.write_bytes(file.read_bytes()[:-5])
        sync(self.root, self.server, folder, whole=False)
        run, = self.server.runs.values()
        self.assertEqual(run.exit_code, 1)
        kept = rows_of_file(folder)
        self.assertGreaterEqual(len(kept), len(rows) - 1)
        self.assertEqual(run.history, kept)

    def test_a_run_that_resumes_continues_and_has_no_point_twice(self):
        save_all = "--trainer.callbacks+={class_path: ModelCheckpoint, init_args: {save_top_k: -1}}"
        fit(self.root, "offline: true", save_all)
        version = self.root / "logs/version_0"
        whole = table(version)
        first = next(file for file in (version / "checkpoints").iterdir() if "epoch=0" in file.name)
        fit(self.root, "offline: true", f"--ckpt_path={first}", epochs=3)
        earlier, later = folders(self.root)
        sync(self.root, self.server, earlier)
        sync(self.root, self.server, later)
        run, = self.server.runs.values()
        again = table(self.root / "logs/version_1")
        self.assertGreater(len(again), len(whole))
        self.assert_same_as_csv(run.history, again)
        self.assertEqual(sum("digits" in row for row in run.history), 3)

    def test_ranks(self):
        fit(self.root, "offline: true, per_rank: true, every_n_steps: 1", config="ddp.yaml", epochs=1)
        found = folders(self.root)
        self.assertEqual(len(found), 3)
        sync(self.root, self.server, *found)
        by_name = {run.variables["displayName"]: run for run in self.server.runs.values()}
        self.assertEqual(set(by_name), {"first", "first-rank_0", "first-rank_1"})
        main = by_name["first"]
        self.assert_same_as_csv(main.history, table(self.root / "logs/version_0"))
        self.assertEqual({run.variables["groupName"] for run in by_name.values()}, {main.name})
        ranks = [by_name[f"first-rank_{rank}"] for rank in range(2)]
        for rank, run in enumerate(ranks):
            self.assertEqual(run.variables["jobType"], "rank")
            self.assertEqual(sum("train_loss" in row for row in run.history), 12)
            self.assertEqual(any("digits" in row for row in run.history), rank == 1)
        for row in main.history:
            if "val_loss" in row:
                own = [other["val_loss"] for run in ranks for other in run.history
                       if "val_loss" in other and other["trainer/global_step"] == row["trainer/global_step"]]
                self.assertEqual(len(own), 2)
                self.assertTrue(math.isclose(sum(own) / 2, row["val_loss"], rel_tol=1e-5))


class Online(Base):
    def test_wandb_core_uploads_all_while_the_run_is_on(self):
        said = fit(self.root, "log_model: false", env=environment(self.root, self.server))
        run, = self.server.runs.values()
        self.assertIn(f"{self.server.url}/tester/digits/runs/{run.name}", said)
        self.assertNotIn(KEY, said)
        self.assert_whole(run, self.root / "logs/version_0")
        folder, = folders(self.root)
        self.assertEqual(run.history, rows_of_file(folder))
        self.assertNotIn(KEY.encode(), b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file()))

    def test_it_is_found_next_to_the_program_wandb_with_the_key_of_netrc(self):
        (self.root / ".netrc").write_text(f"machine 127.0.0.1\n  login user\n  password {KEY}\n")
        env = environment(self.root, WANDB_BASE_URL=self.server.url, PATH=f"{BIN}:{os.environ['PATH']}")
        fit(self.root, "log_model: false", env=env, epochs=1)
        run, = self.server.runs.values()
        self.assert_same_as_csv(run.history, table(self.root / "logs/version_0"))

    def test_without_wandb_core_the_run_is_offline_and_says_how_to_upload_it(self):
        env = environment(self.root, self.server) | {"WANDB_CORE": "", "PATH": "/usr/bin:/bin"}
        said = fit(self.root, "log_model: false", env=env, epochs=1)
        folder, = folders(self.root)
        self.assertTrue(folder.name.startswith("offline-run-"))
        self.assertRegex(said, f"wandb-core is not installed.*wandb sync {folder}")
        self.assertEqual(self.server.runs, {})

    def test_without_a_server_the_run_is_offline(self):
        env = environment(self.root, self.server) | {"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_INIT_TIMEOUT": "2"}
        said = fit(self.root, "log_model: false", env=env, epochs=1)
        folder, = folders(self.root)
        self.assertRegex(said, f"the run is offline: .*wandb sync {folder}")
        sync(self.root, self.server, folder)
        run, = self.server.runs.values()
        self.assert_same_as_csv(run.history, table(self.root / "logs/version_0"))

    def test_when_wandb_core_is_killed_nothing_is_lost(self):
        process = subprocess.Popen(command(self.root, "log_model: false", epochs=60), cwd=SOURCE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env=environment(self.root, self.server))
        metrics = self.root / "logs/version_0/metrics.csv"
        eventually(lambda: metrics.exists() and len(table(metrics.parent)) > 20)
        core, = children_of(process.pid, "wandb-core")
        os.kill(core, signal.SIGKILL)
        said, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, said)
        folder, = folders(self.root)
        self.assertRegex(said, f"(?s)wandb-core fails.*wandb sync {folder}")
        self.assertTrue(folder.name.startswith("offline-run-"))
        self.assert_same_as_csv(rows_of_file(folder), table(metrics.parent))
        self.server.runs.clear()
        sync(self.root, self.server, folder)
        run, = self.server.runs.values()
        self.assertEqual(run.history, rows_of_file(folder))

    def begin_with_stopped_core(self, options, **how):
        """A fit whose wandb-core has stopped for ever."""
        process = subprocess.Popen(command(self.root, options, **how), cwd=SOURCE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env=environment(self.root, self.server))
        metrics = self.root / "logs/version_0/metrics.csv"
        eventually(lambda: metrics.exists() and len(table(metrics.parent)) > 20)
        core, = children_of(process.pid, "wandb-core")
        os.kill(core, signal.SIGSTOP)
        return process

    def assert_kept(self, said, why):
        folder, = folders(self.root)
        self.assertRegex(said, f"(?s)wandb-core fails: {why}.*wandb sync {folder}")
        self.assertTrue(folder.name.startswith("offline-run-"))
        self.assert_same_as_csv(rows_of_file(folder), table(self.root / "logs/version_0"))

    def test_when_wandb_core_no_longer_answers_the_run_ends(self):
        process = self.begin_with_stopped_core("log_model: false, end_timeout: 2", epochs=60)
        said, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, said)
        self.assert_kept(said, "it has uploaded nothing more for 2 s")

    def test_a_signal_ends_the_wait_for_a_wandb_core_that_does_not_answer(self):
        process = self.begin_with_stopped_core("log_model: false, end_timeout: 100000", epochs=60)
        run = self.root / "logs/version_0/run.json"
        # The loggers end in their order: the one before has done so.
        eventually(lambda: json.loads(run.read_text())["status"] == "finished")
        process.terminate()
        said, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        self.assert_kept(said, "a signal came before all was uploaded")

    def test_a_run_that_was_killed_resumes_online_with_every_row_once(self):
        env = environment(self.root, self.server)
        process = subprocess.Popen(command(self.root, "log_model: false", epochs=100000), cwd=SOURCE, env=env,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        checkpoint = self.root / "logs/version_0/checkpoints/last.ckpt"
        eventually(checkpoint.exists)
        process.send_signal(signal.SIGKILL)
        process.wait()
        epoch = int(table(checkpoint.parents[1])[-1]["epoch"])
        fit(self.root, "log_model: false", f"--ckpt_path={checkpoint}", env=env, epochs=epoch + 3)
        run, = self.server.runs.values()
        self.assert_same_as_csv(run.history, table(self.root / "logs/version_1"))
        self.assertEqual(run.exit_code, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
