"""What MLflowLogger does when a server fails in ways that a real one cannot be asked for: mlflow_faults_test.py LEVIN SOURCE"""
import base64
import collections
import csv
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

LEVIN, SOURCE = sys.argv[1:3]
USER = "Basic " + base64.b64encode(b"me:secret").decode()


class Server(http.server.ThreadingHTTPServer):
    """Speaks the calls of MLflow's that levin makes, and fails on request."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server_address[1]}"
        self.runs, self.points, self.params, self.files, self.requests = [], {}, {}, {}, []
        self.times, self.process, self.kills_at = {}, None, None
        self.loses_first_run = self.fails_batch = self.refuses_file = True
        self.refused = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def refuse(self, message, code="INVALID_PARAMETER_VALUE", status=400):
        self.answer({"error_code": code, "message": message}, status)

    def handle_call(self):
        url = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(url.path)
        if self.headers.get("Authorization") != USER:
            return self.answer("who are you?", 401)
        if self.command == "PUT":
            return self.take_file(url.path, body)
        call = url.path.removeprefix("/api/2.0/mlflow/").replace("/", "_").replace("-", "_")
        return getattr(self, call)(json.loads(body or "{}"))

    do_GET = do_POST = do_PUT = handle_call

    def take_file(self, path, body):
        if self.server.refuses_file:
            self.server.refuses_file = False
            return self.answer("the disk is full", 500)
        self.server.files[path] = body
        return self.answer({})

    def experiments_get_by_name(self, _):
        self.refuse("no such experiment", "RESOURCE_DOES_NOT_EXIST", 404)

    def experiments_create(self, _):
        self.answer({"experiment_id": "7"})

    def runs_search(self, body):
        key = body["filter"].split("'")[1]
        self.answer({"runs": [run for run in self.server.runs if key in str(run["data"])]})

    def runs_create(self, body):
        run = {"info": {"run_id": f"run{len(self.server.runs)}", "experiment_id": "7", "status": "RUNNING",
                        "lifecycle_stage": "active", "artifact_uri": "mlflow-artifacts:/7/run/artifacts"},
               "data": {"tags": body["tags"]}}
        self.server.runs.append(run)
        if self.server.loses_first_run:
            self.server.loses_first_run = False
            self.close_connection = True
            return
        self.answer({"run": run})

    def runs_get(self, _):
        self.answer({"run": self.server.runs[0]})

    def runs_update(self, body):
        self.server.runs[0]["info"]["status"] = body["status"]
        self.answer({})

    def metrics_get_history(self, _):
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        name, at = asked["metric_key"][0], int(asked.get("page_token", ["0"])[0])
        points = [{"key": name, "step": step, "value": value, "timestamp": time}
                  for (step, value), time in zip(self.server.points.get(name, []), self.server.times.get(name, []))]
        # Pages, smaller than what was asked for.
        more = {"next_page_token": str(at + 2)} if at + 2 < len(points) else {}
        self.answer({"metrics": points[at:at + 2], **more})

    def runs_delete_tag(self, _):
        self.answer({})

    def runs_log_batch(self, body):
        metrics, params = body.get("metrics", []), body.get("params", [])
        assert len(metrics) <= 1000 and len(params) <= 100 and len(body.get("tags", [])) <= 100
        if metrics and self.server.fails_batch:
            self.server.fails_batch = False
            return self.answer("down for a moment", 503)
        if any(part["key"] == "model.channels" for part in params) or any(part["key"] == "train_loss" for part in metrics):
            self.server.refused += 1
            return self.refuse("this name is not liked here")
        kills = metrics and self.server.kills_at and any(part["step"] >= self.server.kills_at for part in metrics)
        for part in metrics:
            # As a server with files does: a point that comes again is stored twice.
            self.server.points.setdefault(part["key"], []).append((part["step"], part["value"]))
            self.server.times.setdefault(part["key"], []).append(part["timestamp"])
        if kills:
            os.kill(self.server.process.pid, signal.SIGKILL)
            self.server.process.wait()
            self.server.kills_at = None
            self.close_connection = True
            return None
        self.server.params.update({part["key"]: part["value"] for part in params})
        return self.answer({})


class Faults(unittest.TestCase):
    def fit(self, root, server, end_timeout, options=(), status=0, **environment):
        logger = "[CSVLogger, {class_path: MLFlowLogger, init_args: {log_model: true, end_timeout: %d}}]" % end_timeout
        command = [LEVIN, "fit", "--config", f"{SOURCE}/examples/digits/config.yaml", f"--trainer.default_root_dir={root}",
                   "--trainer.max_epochs=2", "--trainer.limit_train_batches=12", "--trainer.limit_val_batches=2",
                   "--trainer.log_every_n_steps=3", "--trainer.enable_progress_bar=false", "--trainer.accelerator=cpu",
                   f"--trainer.logger={logger}", *options]
        server.process = subprocess.Popen(command, cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                          env={**os.environ, "MLFLOW_TRACKING_URI": server.uri, **environment})
        output, _ = server.process.communicate(timeout=200)
        self.assertEqual(server.process.returncode, status, output)
        return output

    def test_a_kill_between_what_is_sent_and_what_is_noted_sends_no_point_twice(self):
        user = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "secret"}
        keeps_all = "--trainer.callbacks=[{class_path: ModelCheckpoint, init_args: {save_top_k: -1}}]"
        points = {}
        for sent_by in (None, "fit", "sync"):
            server = Server()
            server.loses_first_run = server.fails_batch = server.refuses_file = False
            with tempfile.TemporaryDirectory() as root:
                run_folder = pathlib.Path(root) / "logs/version_0"
                if sent_by:
                    server.kills_at = 13  # of the second epoch
                    self.fit(root, server, 60, options=[keeps_all], status=-signal.SIGKILL, **user)
                    self.assertIsNone(server.kills_at)
                if sent_by == "sync":
                    subprocess.run([LEVIN, "runs", "sync", run_folder], check=True, capture_output=True, env={**os.environ, **user})
                else:
                    first = [f"--ckpt_path={file}" for file in run_folder.glob("checkpoints/epoch=0-*")]
                    self.fit(root, server, 60, options=[keeps_all, *first], **user)
            self.assertEqual(len(server.runs), 1)
            asked = server.requests.count("/api/2.0/mlflow/metrics/get-history")
            self.assertEqual(asked > 0, sent_by is not None)
            points[sent_by] = {name: sorted(of_name) for name, of_name in server.points.items()}
        # As those of a run without faults.
        self.assertIn("val_loss", points[None])
        self.assertEqual(points["fit"], points[None])
        for name, of_name in points["sync"].items():
            self.assertEqual(collections.Counter(of_name) - collections.Counter(points[None][name]), collections.Counter(), name)

    def test_faults_of_a_server(self):
        server = Server()
        with tempfile.TemporaryDirectory() as root:
            output = self.fit(root, server, 60, MLFLOW_TRACKING_USERNAME="me", MLFLOW_TRACKING_PASSWORD="secret")
            run_folder = pathlib.Path(root) / "logs/version_0"
            with open(run_folder / "metrics.csv", newline="") as text:
                table = list(csv.DictReader(text))
            checkpoints = {file.name: file.read_bytes() for file in (run_folder / "checkpoints").iterdir()}
            kept = "".join(file.read_text() for file in (run_folder / "mlflow").iterdir())
        self.assertEqual(len(server.runs), 1)  # the one whose answer was lost
        self.assertEqual(server.runs[0]["info"]["status"], "FINISHED")
        for name in ("epoch", "val_loss"):
            expected = [(int(row["step"]), float(row[name])) for row in table if row[name] != ""]
            self.assertEqual(sorted(server.points[name]), sorted(expected))
        self.assertGreater(server.refused, 2)
        self.assertNotIn("train_loss", server.points)
        self.assertEqual(server.params["model.lr"], "0.002")
        self.assertEqual(output.count("this name is not liked here"), 2)  # once for each name
        files = {urllib.parse.unquote(path).rsplit("/", 1)[1]: content for path, content in server.files.items()}
        self.assertEqual(set(files), set(checkpoints))
        self.assertTrue(all(files[name] == content for name, content in checkpoints.items()))
        self.assertEqual(output.count("is sent again at the end"), 1)
        self.assertNotIn("secret", output + kept)

    def test_a_user_that_is_not_known(self):
        server = Server()
        with tempfile.TemporaryDirectory() as root:
            output = self.fit(root, server, 1, MLFLOW_TRACKING_TOKEN="wrong")
            self.assertIn("status 401", output)
            command = [LEVIN, "runs", "sync", f"{root}/logs/version_0"]
            refused = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((refused.returncode, "status 401" in refused.stderr), (1, True), refused.stderr)
            server.loses_first_run = server.fails_batch = server.refuses_file = False
            subprocess.run(command, check=True, capture_output=True,
                           env={**os.environ, "MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "secret"})
        self.assertEqual(server.runs[0]["info"]["status"], "FINISHED")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
