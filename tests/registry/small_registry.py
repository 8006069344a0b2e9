"""A registry of the distribution specification for tests: on loopback, in this process, in memory; it does wrong what a test wants.

    with SmallRegistry() as registry:
        registry.faults.append(lambda request: request.path.endswith("/x") and request.answer(500))

A fault sees each request before it is answered. What it returns is whether it has answered."""
import base64
import hashlib
import http.server
import json
import re
import threading
import urllib.parse


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Request(http.server.BaseHTTPRequestHandler):
    """One request. `verb`, `path`, `query`; `body` is read at once."""
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer goes out as one piece
    disable_nagle_algorithm = True  # also one that is longer than a buffer

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=(), send=None, length=None):
        """`send`: what is sent of the body before the connection is cut; `length`: what is said of it."""
        self.status = status
        self.registry.is_answered(self)
        self.send_response(status)
        headers = dict(headers)
        if not (self.verb == "HEAD" and "Content-Length" in headers):
            headers["Content-Length"] = str(len(body) if length is None else length)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.verb != "HEAD":
            sent = body if send is None else send
            self.wfile.write(sent)
            self.registry.count(self, len(sent))
        if send is not None:
            self.close_connection = True
        return True

    def setup(self):
        super().setup()
        with self.registry.lock:
            self.registry.connections += 1

    def handle_any(self):
        self.verb = self.command
        self.full_path = self.path
        parts = urllib.parse.urlsplit(self.path)
        self.path, self.query = urllib.parse.unquote(parts.path), dict(urllib.parse.parse_qsl(parts.query))
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.status = None
        with self.registry.changed:
            self.registry.in_flight.add(self)
            self.registry.most_in_flight = max(self.registry.most_in_flight, len(self.registry.in_flight))
            self.registry.changed.notify_all()
        try:
            self.registry.serve(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        self.registry.is_answered(self)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # who asks ends its connections as it likes


class SmallRegistry:
    def __init__(self):
        self.blobs, self.manifests, self.uploads = {}, {}, {}  # by repository: {digest: bytes}, {tag or digest: (type, bytes)}
        self.faults, self.log = [], []
        self.gives_ranges = True
        self.lists_referrers = None  # entries of a page; None: it has no listing, as many have not
        self.mounts = True       # blobs of other repositories on request
        self.piece_limit = None  # bytes of one PATCH
        self.users = None        # {name: password}: who may come in
        self.by_token = True     # ... with a token of /token, else by Basic
        self.realm = None        # where tokens are, if it is not here
        self.begun = 0  # uploads
        self.bytes_out = 0
        self.connections = 0
        self.in_flight, self.most_in_flight = set(), 0  # requests that are not answered yet
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)

    def __enter__(self):
        handler = type("Handler", (Request,), {"registry": self})
        self.server = Server(("127.0.0.1", 0), handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def is_answered(self, request):
        with self.lock:
            self.in_flight.discard(request)

    def count(self, request, sent):
        with self.lock:
            self.bytes_out += sent

    def put_blob(self, repository, data):
        self.blobs.setdefault(repository, {})[digest_of(data)] = data
        return {"digest": digest_of(data), "size": len(data)}

    def put_manifest(self, repository, tag, manifest, kind="application/vnd.oci.image.manifest.v1+json"):
        data = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        for name in (tag, digest_of(data)):
            self.manifests.setdefault(repository, {})[name] = (kind, data)
        return digest_of(data)

    def attach(self, repository, subject, what):
        """A referrer, as cosign and others push them; where the registry has no listing, under the tag as well."""
        kind, index_kind = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
        data = json.dumps({"schemaVersion": 2, "mediaType": kind, "artifactType": "application/x-test",
                           "config": {"mediaType": "application/vnd.oci.empty.v1+json", **self.put_blob(repository, b"{}")},
                           "layers": [{"mediaType": "text/plain", **self.put_blob(repository, what)}],
                           "subject": {"mediaType": kind, "digest": subject, "size": 1}}).encode()
        held, tag, digest = self.manifests[repository], subject.replace(":", "-"), digest_of(data)
        held[digest] = (kind, data)
        if not self.lists_referrers:
            before = json.loads(held.get(tag, (0, b'{"manifests":[]}'))[1])["manifests"]
            entry = {"mediaType": kind, "digest": digest, "size": len(data), "artifactType": "application/x-test"}
            self.put_manifest(repository, tag, {"schemaVersion": 2, "mediaType": index_kind, "manifests": before + [entry]}, index_kind)
        return digest

    def requests(self, verb, ending=""):
        return [entry for entry in self.log if entry["verb"] == verb and re.search(ending, entry["path"])]

    # ---- Answers

    def serve(self, request):
        for fault in list(self.faults):
            if fault(request):
                break
        else:
            self.serve_right(request)
        with self.lock:
            self.log.append({"verb": request.verb, "path": request.path, "query": request.query, "status": request.status,
                             "range": request.headers.get("Range"), "authorization": request.headers.get("Authorization"),
                             "bytes": len(request.body)})

    def serve_right(self, request):
        if request.path == "/token":
            return self.serve_token(request)
        match = re.fullmatch(r"/v2/([a-z0-9/._-]+)/(manifests|blobs|referrers)/(.*)", request.path)
        if not match:
            return request.answer(200 if request.path == "/v2/" else 404)
        repository, kind, name = match.groups()
        if not self.may_enter(request, repository):
            return None
        if kind == "referrers":
            return self.serve_referrers(request, repository, name)
        if kind == "manifests":
            return self.serve_manifest(request, repository, name)
        if name.startswith("uploads/"):
            return self.serve_upload(request, repository, name[len("uploads/"):])
        return self.serve_blob(request, repository, name)

    def basic_user(self, request):
        kind, _, text = (request.headers.get("Authorization") or "").partition(" ")
        if kind != "Basic":
            return None
        user, _, password = base64.b64decode(text).decode().partition(":")
        return user if self.users.get(user) == password else None

    def serve_token(self, request):
        user = self.basic_user(request)
        if user is None:
            return request.answer(401, b"{}")
        return request.answer(200, json.dumps({"token": f"token-{user}-{request.query['scope']}"}).encode())

    def may_enter(self, request, repository):
        if self.users is None:
            return True
        scope = f"repository:{repository}:" + ("pull" if request.verb in ("GET", "HEAD") else "pull,push")
        # What may be pushed may be pulled.
        match = re.fullmatch(r"Bearer token-\w+-(repository:[^:]*:)(pull|pull,push)", request.headers.get("Authorization") or "")
        if self.by_token and match and scope.startswith(match.group(1)) and (match.group(2) == "pull,push" or scope.endswith(":pull")):
            return True
        if not self.by_token and self.basic_user(request):
            return True
        realm = self.realm or f"http://{self.host}/token"
        challenge = f'Bearer realm="{realm}",service="small",scope="{scope}"' if self.by_token else 'Basic realm="small"'
        request.answer(401, b'{"errors":[{"code":"UNAUTHORIZED","message":"who are you"}]}', {"WWW-Authenticate": challenge})
        return False

    def serve_manifest(self, request, repository, name):
        held = self.manifests.setdefault(repository, {})
        if request.verb == "PUT":
            kind, data = request.headers["Content-Type"], request.body
            held[name] = held[digest_of(data)] = (kind, data)
            headers = {"Docker-Content-Digest": digest_of(data)}
            subject = json.loads(data).get("subject")
            if subject and self.lists_referrers:
                headers["OCI-Subject"] = subject["digest"]
            return request.answer(201, headers=headers)
        if name not in held:
            return request.answer(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such manifest"}]}')
        kind, data = held[name]
        return request.answer(200, data, {"Content-Type": kind, "Docker-Content-Digest": digest_of(data)})

    def serve_referrers(self, request, repository, name):
        if not self.lists_referrers:
            return request.answer(404)
        entries = [{"mediaType": kind, "digest": key, "size": len(data), "artifactType": json.loads(data).get("artifactType", "")}
                   for key, (kind, data) in sorted(self.manifests.get(repository, {}).items())
                   if key.startswith("sha256:") and (json.loads(data).get("subject") or {}).get("digest") == name]
        first = int(request.query.get("from", 0))
        headers = {"Content-Type": "application/vnd.oci.image.index.v1+json"}
        if first + self.lists_referrers < len(entries):
            headers["Link"] = f'</v2/{repository}/referrers/{name}?from={first + self.lists_referrers}>; rel="next"'
        index = {"schemaVersion": 2, "mediaType": headers["Content-Type"], "manifests": entries[first:first + self.lists_referrers]}
        return request.answer(200, json.dumps(index).encode(), headers)

    def serve_blob(self, request, repository, name):
        data = self.blobs.get(repository, {}).get(name)
        if data is None:
            return request.answer(404)
        if request.verb == "HEAD":
            return request.answer(200, headers={"Content-Length": str(len(data))})
        return self.answer_bytes(request, data)

    def answer_bytes(self, request, data, **how):
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range") or "")
        if not match or not self.gives_ranges:
            return request.answer(200, data, **how)
        first, last = int(match.group(1)), min(int(match.group(2)), len(data) - 1)
        return request.answer(206, data[first:last + 1], {"Content-Range": f"bytes {first}-{last}/{len(data)}"}, **how)

    def serve_upload(self, request, repository, name):
        place = lambda: {"Location": f"/v2/{repository}/blobs/uploads/{name}?state=a%3Db", "Range": f"0-{max(len(self.uploads[name]) - 1, 0)}"}
        wanted = request.query.get("mount")
        if request.verb == "POST" and self.mounts and wanted in self.blobs.get(request.query.get("from"), {}):
            self.put_blob(repository, self.blobs[request.query["from"]][wanted])
            return request.answer(201, headers={"Location": f"/v2/{repository}/blobs/{wanted}"})
        if request.verb == "POST":
            with self.lock:
                self.begun += 1
                name = f"u{self.begun}"
                self.uploads[name] = b""
            return request.answer(202, headers=place())
        if name not in self.uploads or request.query.get("state") != "a=b":
            return request.answer(404)
        if request.verb == "GET":
            return request.answer(204, headers=place())
        if request.verb == "DELETE":
            del self.uploads[name]
            return request.answer(204)
        if request.verb == "PATCH":
            first, last = map(int, request.headers["Content-Range"].split("-"))
            if first != len(self.uploads[name]) or last - first + 1 != len(request.body):
                return request.answer(416, headers=place())
            if self.piece_limit is not None and len(request.body) > self.piece_limit:
                return request.answer(413)
            self.uploads[name] += request.body
            return request.answer(202, headers=place())
        data = self.uploads.pop(name) + request.body
        if request.query["digest"] != digest_of(data):
            return request.answer(400, b'{"errors":[{"code":"DIGEST_INVALID","message":"another digest"}]}')
        self.put_blob(repository, data)
        return request.answer(201, headers={"Location": f"/v2/{repository}/blobs/{digest_of(data)}"})
