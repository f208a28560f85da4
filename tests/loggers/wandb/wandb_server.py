"""A server that takes what W&B's own programs upload, and stores it: the few requests of GraphQL, the file stream, and files."""
import gzip
import http.server
import json
import re
import threading


class Run:
    def __init__(self, name):
        self.name = name
        self.streams = {}  # file → lines
        self.files = {}    # path → bytes
        self.variables = {}     # variables of UpsertBucket
        self.exit_code = None

    def lines(self, stream):
        return [json.loads(line) for line in self.streams.get(stream, [])]

    @property
    def history(self):
        return self.lines("wandb-history.jsonl")

    @property
    def summary(self):
        lines = self.lines("wandb-summary.json")
        return lines[-1] if lines else {}

    @property
    def config(self):
        return {name: value["value"] for name, value in json.loads(self.variables.get("config") or "{}").items()}


class Server:
    """While one lives, it listens at `url`. `runs` has what came, by the id of the run."""

    def __init__(self):
        self.runs = {}
        self.artifacts = []
        self.keys = set()
        self.lock = threading.Lock()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def body(self):
                if self.headers.get("Transfer-Encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                else:
                    body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

            def answer(self, value):
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                body = self.body()
                with owner.lock:
                    if self.path == "/graphql":
                        owner.keys.add(self.headers.get("Authorization"))
                        self.answer({"data": owner.graphql(json.loads(body))})
                    elif self.path.endswith("/file_stream"):
                        self.answer(owner.file_stream(self.path.split("/")[-2], json.loads(body)))
                    else:
                        self.answer({})

            def do_PUT(self):
                body = self.body()
                with owner.lock:
                    _, _, run, path = self.path.split("/", 3)
                    owner.run(run).files[path] = body
                self.answer({})

            def do_GET(self):
                self.answer({})

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # a client that is killed
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def run(self, name):
        return self.runs.setdefault(name, Run(name))

    def file_stream(self, name, said):
        run = self.run(name)
        for file, part in (said.get("files") or {}).items():
            lines = run.streams.setdefault(file, [])
            if file == "wandb-summary.json":
                lines[:] = part["content"]
            else:
                lines[part["offset"]:] = part["content"]
        if said.get("complete"):
            run.exit_code = said.get("exitcode")
        return {}

    def bucket(self, run):
        return {"id": f"id-of-{run.name}", "name": run.name, "displayName": run.variables.get("displayName") or "chosen-name-1",
                "description": "", "config": run.variables.get("config"), "sweepName": None,
                "historyLineCount": len(run.history), "project": {"id": "p", "name": run.variables.get("project"), "entity": {"id": "e", "name": "tester"}}}

    def graphql(self, request):
        name = request.get("operationName") or re.search(r"(?:query|mutation)\s+(\w+)", request["query"]).group(1)
        said = request.get("variables") or {}
        if name == "UpsertBucket":
            run = self.run(said["name"])
            run.variables.update({key: value for key, value in said.items() if value is not None})
            return {"upsertBucket": {"bucket": self.bucket(run), "inserted": True}}
        if name == "RunResumeStatus":
            run = self.runs.get(said["name"])
            if run is None:
                return {"model": None}
            tail = json.dumps([json.dumps(line) for line in run.history[-1:]])
            return {"model": {"id": "p", "name": said["project"], "entity": {"id": "e", "name": "tester"},
                              "bucket": {**self.bucket(run), "summaryMetrics": json.dumps(run.summary),
                                         "logLineCount": 0, "eventsLineCount": len(run.streams.get("wandb-events.jsonl", [])),
                                         "historyTail": tail, "eventsTail": "[]", "tags": run.variables.get("tags"),
                                         "wandbConfig": json.dumps({"t": 1})}}}
        if name == "CreateRunFiles":
            files = [{"name": file, "uploadUrl": f"{self.url}/put/{said['run']}/{file}"} for file in said["files"]]
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}
        if name == "ServerFeaturesQuery":
            return {"serverInfo": {"features": []}}
        if name == "Viewer":
            return {"viewer": {"id": "u", "entity": "tester", "username": "tester", "flags": "{}", "teams": {"edges": []}}}
        self.unknown = getattr(self, "unknown", []) + [name]
        return {}
