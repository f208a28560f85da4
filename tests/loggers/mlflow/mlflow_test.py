"""Asks a real MLflow server for what MLflowLogger has sent: mlflow_test.py LEVIN SOURCE PLUGIN"""
import csv
import json
import math
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true", MLFLOW_HTTP_REQUEST_MAX_RETRIES="0",
                  MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false")
import mlflow  # noqa: E402

LEVIN, SOURCE, PLUGIN = sys.argv[1:4]
PATIENCE = 300


def wait_for(what, found):
    """Asks until the answer is true, and gives it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        answer = found()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"waited {PATIENCE} s in vain for {what}")


class Server:
    """`mlflow server` with its own database, which can stop and come back."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.sqlite",
                   "--artifacts-destination", f"{self.folder}/artifacts", "--host", "127.0.0.1", "--port", str(self.port),
                   "--workers", "1"]
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        wait_for("the MLflow server", self.answers)

    def answers(self):
        try:
            return urllib.request.urlopen(f"{self.uri}/health", timeout=2).status == 200
        except (urllib.error.URLError, OSError):
            return False

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def stop(self):
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


def command_of(root, uri, *options, logger=(), config="config.yaml", epochs=2):
    csv_options = "".join(f", {option}" for option in logger if option.startswith("version"))
    patience = () if any("end_timeout" in option for option in logger) else (f"end_timeout: {PATIENCE}",)
    own = ", ".join((f"tracking_uri: {uri}", "experiment_name: digits", *patience, *logger))
    return [LEVIN, "fit", "--config", f"{SOURCE}/examples/digits/{config}", "--plugin", PLUGIN,
            f"--trainer.default_root_dir={root}", f"--trainer.max_epochs={epochs}", "--trainer.limit_train_batches=12",
            "--trainer.limit_val_batches=2", "--trainer.log_every_n_steps=3", "--trainer.enable_progress_bar=false",
            "--trainer.callbacks+=ShownItems", "--trainer.accelerator=cpu",
            "--trainer.logger=[{class_path: CSVLogger, init_args: {name: logs%s}}, {class_path: MLflowLogger, init_args: {%s}}]"
            % (csv_options, own), *options]


def finish(command, status=0):
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=300)
    if done.returncode != status:
        raise AssertionError(f"status {done.returncode}: {' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


class Running:
    """levin at work, and what it has said so far."""

    def __init__(self, folder, command):
        self.log = folder / "output.txt"
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(command, cwd=SOURCE, stdout=output, stderr=output)

    def said(self, text):
        return text in self.log.read_text()

    def finish(self):
        status = self.process.wait(timeout=300)
        if status != 0:
            raise AssertionError(f"status {status}:\n{self.log.read_text()}")
        return self.log.read_text()


def rows(file):
    with open(file, newline="") as text:
        return list(csv.DictReader(text))


class MLflow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.server = Server(cls.folder)
        cls.addClassCleanup(cls.server.stop)
        cls.server.start()
        mlflow.set_tracking_uri(cls.server.uri)
        cls.client = mlflow.MlflowClient(cls.server.uri)

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.run_folder = self.root / "logs" / "version_0"
        self.addCleanup(lambda: self.server.process is None and self.server.start())

    def command(self, *options, **more):
        return command_of(self.root, self.server.uri, *options, **more)

    def run_of(self, folder=None):
        state = json.loads(((folder or self.run_folder) / "mlflow" / "journal.state.json").read_text())
        return self.client.get_run(state["run"]["run_id"])

    def points(self, run):
        return {name: [(point.step, point.value) for point in self.client.get_metric_history(run.info.run_id, name)]
                for name in run.data.metrics}

    def assert_same_as_csv(self, run, table):
        """Each cell of the table is a point, and there are no others, but for single ranks' values."""
        cells = {}
        for row in table:
            for name, value in row.items():
                if value != "" and name != "step":
                    cells.setdefault(name, []).append((int(row["step"]), float(value)))
        points = {name: values for name, values in self.points(run).items() if "/rank_" not in name}
        self.assertEqual(set(points), set(cells))
        for name, expected in cells.items():
            self.assertEqual(sorted(points[name]), sorted(expected), name)

    def artifacts(self, run, path=None):
        found = []
        for file in self.client.list_artifacts(run.info.run_id, path):
            found += self.artifacts(run, file.path) if file.is_dir else [file.path]
        return found

    def content(self, run, path):
        return pathlib.Path(self.client.download_artifacts(run.info.run_id, path, tempfile.mkdtemp(dir=self.root))).read_bytes()

    def test_a_run(self):
        output = finish(self.command(logger=("run_name: first", "tags: {fold: 3, who: me}", "log_model: true")))
        run = self.run_of()
        self.assertIn(f"/runs/{run.info.run_id}", output)
        self.assertEqual(self.client.get_experiment(run.info.experiment_id).name, "digits")
        self.assertEqual((run.info.status, run.info.run_name), ("FINISHED", "first"))
        self.assertLessEqual(run.info.start_time, run.info.end_time)
        self.assert_same_as_csv(run, rows(self.run_folder / "metrics.csv"))
        self.assertEqual({name: run.data.params[name] for name in ("model.lr", "model.channels", "data.shape")},
                         {"model.lr": "0.002", "model.channels": "32", "data.shape": "[1,8,8]"})
        tags = run.data.tags
        self.assertEqual((tags["fold"], tags["who"], tags["stop_reason"]), ("3", "me", "max_epochs=2 reached"))
        self.assertIn("levin fit --config", tags["mlflow.source.name"])
        self.assertNotIn("failure", tags)

        media = self.run_folder / "media"
        found = self.artifacts(run)
        files = {str(file.relative_to(media)) for file in media.rglob("*") if file.is_file()}
        tables = {name for name in files if name.startswith("tables/") and name.endswith(".csv")}
        checkpoints = {f"model/checkpoints/{file.stem}/{file.name}" for file in (self.run_folder / "checkpoints").iterdir()}
        self.assertEqual(set(found), (files - tables) | checkpoints)
        self.assertEqual(len(checkpoints), 2)
        for kind in ("images/digits", "images/ramps/colours", "histograms/ramp", "texts/note", "tables/errors", "files/notes"):
            self.assertEqual(len([path for path in found if path.startswith(kind + "/")]), 2, kind)
        for path in (path for path in found if path in files):
            self.assertEqual(self.content(run, path), (media / path).read_bytes(), path)
        for path in checkpoints:
            self.assertEqual(self.content(run, path), (self.run_folder / "checkpoints" / pathlib.Path(path).name).read_bytes())
        table = sorted(path for path in found if path.startswith("tables/errors/"))[1]
        # What MLflow's pages ask for.
        shown = urllib.request.urlopen(f"{self.server.uri}/get-artifact?run_id={run.info.run_id}&path={table}", timeout=60).read()
        self.assertEqual(json.loads(shown), {"columns": ["image", "label"], "data": [[12, "seven"], [1, "three"]]})
        self.assertIn({"path": table, "type": "table"}, json.loads(run.data.tags["mlflow.loggedArtifacts"]))
        frame = self.client.load_table(run.info.experiment_id, table, [run.info.run_id])
        self.assertEqual(frame.to_dict("list"), {"image": [12, 1], "label": ["seven", "three"]})

    def test_a_server_that_is_away_at_the_start(self):
        self.server.stop()
        levin = Running(self.root, self.command())
        wait_for("the warning", lambda: levin.said("does not take what is logged"))
        last = wait_for("the last row", lambda: "FINISHED" in (self.run_folder / "mlflow" / "journal.jsonl").read_text())
        self.assertTrue(last)
        self.server.start()
        output = levin.finish()
        self.assertEqual(output.count("does not take what is logged"), 1)
        self.assertEqual(output.count("is back"), 1)
        run = self.run_of()
        self.assertEqual(run.info.status, "FINISHED")
        self.assert_same_as_csv(run, rows(self.run_folder / "metrics.csv"))
        self.assertEqual(len([path for path in self.artifacts(run) if path.startswith("images/digits/")]), 2)
        started = json.loads((self.run_folder / "mlflow" / "journal.jsonl").read_text().splitlines()[0])["start"]
        self.assertEqual(run.info.start_time, started)

    def test_a_server_that_goes_away_and_comes_back(self):
        levin = Running(self.root, self.command("--trainer.log_every_n_steps=1", "--trainer.callbacks=[]", epochs=200))
        wait_for("points", lambda: (self.run_folder / "mlflow" / "journal.state.json").exists()
                 and "\"status\": \"RUNNING\"" in (self.run_folder / "mlflow" / "journal.state.json").read_text())
        self.server.stop()
        wait_for("the warning", lambda: levin.said("does not take what is logged"))
        # The run continues to its end, whatever the server does.
        wait_for("the end", lambda: "FINISHED" in (self.run_folder / "mlflow" / "journal.jsonl").read_text())
        self.server.start()
        levin.finish()
        run = self.run_of()
        self.assertEqual(run.info.status, "FINISHED")
        self.assert_same_as_csv(run, rows(self.run_folder / "metrics.csv"))

    def test_a_server_that_stalls(self):
        self.server.signal(signal.SIGSTOP)
        try:
            levin = Running(self.root, self.command())
            wait_for("the end", lambda: (self.run_folder / "mlflow" / "journal.jsonl").exists()
                     and "FINISHED" in (self.run_folder / "mlflow" / "journal.jsonl").read_text())
        finally:
            self.server.signal(signal.SIGCONT)
        levin.finish()
        self.assert_same_as_csv(self.run_of(), rows(self.run_folder / "metrics.csv"))
        runs = self.client.search_runs([self.run_of().info.experiment_id],
                                       f"tags.`levin.run` = '{self.run_of().data.tags['levin.run']}'")
        self.assertEqual(len(runs), 1)

    def test_what_the_end_did_not_wait_for_is_sent_later(self):
        self.server.stop()
        output = finish(self.command(logger=("end_timeout: 1",)))
        self.assertIn(f"levin runs sync {self.run_folder}", output)
        self.server.start()
        said = finish([LEVIN, "runs", "sync", str(self.run_folder)])
        self.assertIn("entries sent to MLflow at", said)
        run = self.run_of()
        self.assertEqual(run.info.status, "FINISHED")
        self.assert_same_as_csv(run, rows(self.run_folder / "metrics.csv"))
        before = self.points(run)
        self.assertIn("nothing left to send", finish([LEVIN, "runs", "sync", str(self.run_folder)]))
        # All again: MLflow stores a point once.
        state = self.run_folder / "mlflow" / "journal.state.json"
        state.write_text(json.dumps({**json.loads(state.read_text()), "sent": 0}))
        finish([LEVIN, "runs", "sync", str(self.run_folder)])
        self.assertEqual(self.points(self.run_of()), before)
        # The run is found without its state, too.
        state.unlink()
        finish([LEVIN, "runs", "sync", str(self.run_folder)])
        self.assertEqual(self.run_of().info.run_id, run.info.run_id)

    def test_a_run_that_is_killed(self):
        levin = Running(self.root, self.command("--trainer.log_every_n_steps=1", "--trainer.callbacks=[]", epochs=10000))
        journal = self.run_folder / "mlflow" / "journal.jsonl"
        wait_for("rows", lambda: journal.exists() and journal.read_text().count("\"row\"") > 50)
        refused = finish([LEVIN, "runs", "sync", str(self.run_folder)], status=1)
        self.assertIn("its run is still running", refused)
        levin.process.kill()
        levin.process.wait()
        expected = [json.loads(line) for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
        finish([LEVIN, "runs", "sync", str(self.run_folder)])
        run = self.run_of()
        self.assertEqual(run.info.status, "KILLED")
        points = self.points(run)
        self.assertEqual(sum(map(len, points.values())), sum(len(entry.get("metrics", {})) for entry in expected))
        for row in rows(self.run_folder / "metrics.csv"):
            self.assertIn((int(row["step"]), float(row["epoch"])), points["epoch"])

    def test_a_run_that_resumes(self):
        """From the first of two epochs' checkpoints on, in the same version and in a new one."""
        save_all = ("--trainer.callbacks=[]", "--trainer.callbacks+=ShownItems",
                    "--trainer.callbacks+={class_path: ModelCheckpoint, init_args: {save_top_k: -1}}")
        finish(self.command(*save_all, logger=("version: 0",)))
        first = next(file for file in (self.run_folder / "checkpoints").iterdir() if "epoch=0" in file.name)
        run = self.run_of()
        for version, name in ((0, "version_0"), ("null", "version_1")):
            finish(self.command(*save_all, f"--ckpt_path={first}", logger=(f"version: {version}",)))
            again = self.run_of(self.root / "logs" / name)
            self.assertEqual(again.info.run_id, run.info.run_id)
            self.assertEqual(again.info.status, "FINISHED")
            self.assert_same_as_csv(again, rows(self.root / "logs" / name / "metrics.csv"))
        self.assertIn("continues in", finish([LEVIN, "runs", "sync", str(self.run_folder)], status=1))

    def test_a_run_that_resumes_before_the_server_knows_it(self):
        save_all = ("--trainer.callbacks=[]", "--trainer.callbacks+={class_path: ModelCheckpoint, init_args: {save_top_k: -1}}")
        self.server.stop()
        finish(self.command(*save_all, logger=("end_timeout: 1", "run_name: early")))
        first = next(file for file in (self.run_folder / "checkpoints").iterdir() if "epoch=0" in file.name)
        self.server.start()
        finish(self.command(*save_all, f"--ckpt_path={first}"))
        again = self.root / "logs" / "version_1"
        run = self.run_of(again)
        self.assertEqual((run.info.run_name, run.info.status), ("early", "FINISHED"))
        self.assert_same_as_csv(run, rows(again / "metrics.csv"))

    def test_a_run_that_is_started_again(self):
        run_id = self.client.create_run("0", run_name="made elsewhere").info.run_id
        finish(self.command("--trainer.callbacks+=FailsInStep5", "--trainer.max_restarts=1", logger=(f"run_id: {run_id}",)), status=1)
        run = self.run_of()
        self.assertEqual((run.info.run_id, run.info.run_name, run.info.status), (run_id, "made elsewhere", "FAILED"))
        self.assert_same_as_csv(run, rows(self.run_folder / "metrics.csv"))
        self.assertEqual((self.run_folder / "mlflow" / "journal.jsonl").read_text().count("RUNNING"), 1)

    def test_ranks(self):
        finish(self.command(config="ddp.yaml", epochs=1, logger=("per_rank: true", "every_n_steps: 1")))
        run = self.run_of()
        self.assert_same_as_csv(run, rows(self.run_folder / "metrics.csv"))
        points = self.points(run)
        for step, mean in points["val_loss"]:
            own = [value for rank in range(2) for at, value in points[f"val_loss/rank_{rank}"] if at == step]
            self.assertEqual(len(own), 2)
            self.assertTrue(math.isclose(sum(own) / 2, mean, rel_tol=1e-5))
        self.assertEqual([len(points[f"train_loss/rank_{rank}"]) for rank in range(2)], [12, 12])
        notes = sorted(path for path in self.artifacts(run) if path.startswith("texts/note/"))
        self.assertEqual([self.content(run, path)[-9:] for path in notes], [b"of rank 0", b"of rank 1"])

    def test_a_run_that_fails(self):
        finish(self.command("--trainer.callbacks+=FailsInStep5"), status=1)
        run = self.run_of()
        self.assertEqual(run.info.status, "FAILED")
        self.assertIn("broken on purpose", run.data.tags["failure"])
        self.assertIn("step 5", run.data.tags["failure"])
        self.assert_same_as_csv(run, rows(self.run_folder / "metrics.csv"))

    def test_every_checkpoint(self):
        finish(self.command("--trainer.callbacks=[]", "--trainer.callbacks+=ModelCheckpoint", epochs=3, logger=("log_model: all",)))
        run = self.run_of()
        found = [path for path in self.artifacts(run) if path.startswith("model/")]
        self.assertEqual(len(found), 3)
        left = next((self.run_folder / "checkpoints").iterdir())
        self.assertEqual(self.content(run, f"model/checkpoints/{left.stem}/{left.name}"), left.read_bytes())
        self.assertEqual(list((self.run_folder / "mlflow" / "checkpoints").iterdir()), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
