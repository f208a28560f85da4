"""A server of files by HTTP and S3, which forgets, fails, cuts off, and checks signatures as AWS describes them."""

import hashlib
import hmac
import http.server
import itertools
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

KEY, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-west-3"


def signed(secret, date, region, text):
    """https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html"""
    key = ("AWS4" + secret).encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.requests = {}, []
        self.failures = 0       # so many requests are answered with 503
        self.cut_after = None   # the next answer ends after so many bytes
        self.needs_signature = False
        self.changed, self.clock = {}, itertools.count()  # when a file was stored
        self.uploads = {}       # parts by the upload's id
        self.page = 1000
        self.refuse_part = 0    # the part of this number gets a 403
        self.holds_puts = False  # from here on they wait until this is set, and are lost
        self.is_put, self.lose_puts = threading.Event(), threading.Event()
        # The status of an answer to Range, where it begins, its ETag and file: what a faulty server changes.
        self.answer_part = lambda first, content, tag: (206, first, tag, content)
        self.redirect = None    # to where every request is sent
        self.is_silent = False  # requests are taken, and not answered
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut, self.server.cut_after = self.server.cut_after, None
        if cut is not None and body:
            self.wfile.write(body[:cut])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
            return
        if self.command != "HEAD":
            self.wfile.write(body)

    def is_signed(self, body):
        said = self.headers.get("Authorization", "")
        if not said.startswith("AWS4-HMAC-SHA256 "):
            return False
        fields = dict(part.strip().split("=", 1) for part in said.split(" ", 1)[1].split(","))
        key, date, region, service, _ = fields["Credential"].split("/")
        names = fields["SignedHeaders"].split(";")
        path, _, query = self.path.partition("?")
        pairs = sorted(part if "=" in part else part + "=" for part in query.split("&") if part)
        payload = self.headers.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest())
        request = "\n".join([self.command, path, "&".join(pairs), *(f"{name}:{self.headers[name].strip()}" for name in names),
                             "", fields["SignedHeaders"], payload])
        scope = f"{date}/{region}/{service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
        return (key, region) == (KEY, REGION) and hmac.compare_digest(signed(SECRET, date, region, text), fields["Signature"])

    def handle_call(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        if self.server.failures and self.command != "HEAD":
            self.server.failures -= 1
            return self.answer(503, b"busy")
        if self.server.needs_signature and not self.is_signed(body):
            return self.answer(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        if self.server.is_silent:
            self.server.lose_puts.wait(60)
            self.close_connection = True
            return
        if self.server.redirect:
            return self.answer(302, headers=[("Location", self.server.redirect)])
        path, _, query = self.path.partition("?")
        name, asked = urllib.parse.unquote(path), urllib.parse.parse_qs(query, keep_blank_values=True)
        if "uploads" in asked or "uploadId" in asked:
            return self.upload_parts(name, asked, body)
        if self.command == "PUT":
            if self.server.holds_puts:
                self.server.is_put.set()
                self.server.lose_puts.wait(60)
                self.close_connection = True
                return
            self.store(name, body)
            return self.answer(200)
        if self.command == "DELETE":
            return self.answer(204 if self.server.files.pop(name, None) is not None else 404)
        if "list-type" in asked:
            return self.list_keys(path, asked)
        content = self.server.files.get(name)
        if content is None:
            return self.answer(404)
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        if self.headers.get("If-None-Match") == tag:
            return self.answer(304, headers=[("ETag", tag)])
        begin = self.headers.get("Range")
        if begin and self.headers.get("If-Range") == tag:
            first = int(begin.removeprefix("bytes=").rstrip("-"))
            status, where, version, content = self.server.answer_part(first, content, tag)
            return self.answer(status, content[where:], [("ETag", version), (
                "Content-Range", f"bytes {where}-{len(content) - 1}/{len(content)}")])
        return self.answer(200, content, [("ETag", tag)])

    def store(self, name, content):
        self.server.files[name] = content
        self.server.changed[name] = next(self.server.clock)

    def upload_parts(self, name, asked, body):
        """https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html"""
        uploads = self.server.uploads
        if "uploads" in asked:
            uploads["an id/1+"] = {}
            return self.answer(200, b"<R><UploadId>an id/1+</UploadId></R>")
        (upload,) = asked["uploadId"]
        if self.command == "DELETE":
            return self.answer(204 if uploads.pop(upload, None) is not None else 404)
        if self.command == "PUT":
            tag = f'"{hashlib.md5(body).hexdigest()}"'
            if asked["partNumber"] == [str(self.server.refuse_part)]:
                return self.answer(403)
            uploads[upload][int(asked["partNumber"][0])] = body
            return self.answer(200, headers=[("ETag", tag)])
        parts = uploads.pop(upload)
        said = [f'<Part><PartNumber>{number}</PartNumber><ETag>&quot;{hashlib.md5(part).hexdigest()}&quot;</ETag></Part>'
                for number, part in sorted(parts.items())]
        if body.decode() != f"<CompleteMultipartUpload>{''.join(said)}</CompleteMultipartUpload>":
            return self.answer(400, b"<Error><Code>InvalidPart</Code></Error>")
        self.store(name, b"".join(part for _, part in sorted(parts.items())))
        return self.answer(200, b"<CompleteMultipartUploadResult/>")

    def list_keys(self, path, asked):
        bucket = path.rstrip("/")
        keys = sorted(name.removeprefix(bucket + "/") for name in self.server.files
                      if name.startswith(bucket + "/" + asked.get("prefix", [""])[0]))
        if "delimiter" in asked:
            keys = [key for key in keys if "/" not in key.removeprefix(asked["prefix"][0])]
        begin = int(asked.get("continuation-token", ["0"])[0])
        page = keys[begin:begin + self.server.page]
        more = begin + self.server.page
        token = f"<NextContinuationToken>{more}</NextContinuationToken>" if more < len(keys) else ""
        seconds = {key: self.server.changed.get(f"{bucket}/{key}", 0) for key in page}
        body = "".join(f"<Contents><Key>{key.replace('&', '&amp;')}</Key>"
                       f"<LastModified>2026-01-01T{seconds[key] // 3600:02}:{seconds[key] // 60 % 60:02}:{seconds[key] % 60:02}.000Z"
                       "</LastModified></Contents>" for key in page)
        self.answer(200, f"<ListBucketResult>{body}{token}</ListBucketResult>".encode())

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_call


class WithServer(unittest.TestCase):
    """A server, a folder, and the environment of programs that use both."""

    def setUp(self):
        self.server = Server()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()) if hasattr(self, "enterContext")
                                   else tempfile.mkdtemp())
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
                            "LEVIN_DATA_CACHE": str(self.folder / "cache"), "HOME": str(self.folder),
                            "AWS_ENDPOINT_URL": self.server.url, "AWS_REGION": REGION}

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
