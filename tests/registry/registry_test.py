"""mlpack push, pull and resolve against a registry that does right, and against one that does not: what is not right never becomes a file."""
import base64
import gzip
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from json_test import Fields  # noqa: E402
from small_registry import SmallRegistry, digest_of  # noqa: E402
from tool_test import main  # noqa: E402

REPOSITORY = "acme/cat"
HEAD = 128 << 10
STRICT = '{"rules":[{"models":["*"],"level":"strict"}]}'


def sample(t, name="s.mlc", *what, sign=True):
    t.run("sample_container", name, *what)
    if sign:
        t.run("mlpack", "sign", name)
    return (t.dir / name).read_bytes()


def names(t):
    return sorted(p.name for p in t.dir.iterdir() if p.name not in ("home", "state", "cache"))


class Pushed:
    """A registry that holds s.mlc as :2, and pulls of it into o.mlc."""

    def __init__(self, t, *what, sign=True):
        self.t, self.registry = t, SmallRegistry()
        self.data = sample(t, "s.mlc", *what, sign=sign)

    def __enter__(self):
        self.registry.__enter__()
        self.reference = f"{self.registry.host}/{REPOSITORY}:2"
        self.pushed = self.t.json("mlpack", "push", "s.mlc", self.reference)
        self.registry.log.clear()
        return self

    def __exit__(self, *what):
        self.registry.__exit__(*what)

    @property
    def blob(self):
        return self.pushed["blob"]

    def is_blob(self, request):
        return request.verb == "GET" and request.path.endswith(self.blob)

    def pull(self, *flags, code=0, reference=None):
        before = names(self.t)
        answer = self.t.json("mlpack", "pull", reference or self.reference, "-o", "o.mlc", *flags, code=code, stderr=None)
        if code == 0:
            assert (self.t.dir / "o.mlc").read_bytes() == self.data
            self.t.run("mlpack", "verify", "o.mlc", "--deep", code=(0, 10))
            (self.t.dir / "o.mlc").unlink()
        assert names(self.t) == before, "nothing is left behind"
        return answer

    def fails(self, fault, code, sentence, *flags):
        self.registry.faults.append(fault)
        answer = self.pull(*flags, code=code)
        text = json.dumps(answer)
        assert sentence in text, text
        self.registry.faults.remove(fault)
        self.pull()


def once(fault):
    """The fault, the first time it can happen."""
    done = []

    def try_once(request):
        if done or not fault(request):
            return False
        done.append(1)
        return True
    return try_once


# ---- What is right

def what_is_pushed_comes_back_bit_for_bit(t):
    with Pushed(t) as p:
        assert p.pushed["root"] == p.t.json("mlpack", "verify", "s.mlc")["root"] and not p.pushed["was_there"]
        answer = p.pull()
        assert answer["digest"] == p.pushed["digest"] and answer["trust"] == "trusted" and answer["ranges"]
        assert len(p.data) <= answer["bytes_fetched"] < len(p.data) + HEAD + 8192, answer
        again = t.json("mlpack", "push", "s.mlc", p.reference)
        assert again["was_there"] and again["bytes_sent"] < 4096 and again["digest"] == p.pushed["digest"]
        assert "digest   " + p.registry.host in t.run("mlpack", "pull", p.reference, "-o", "o.mlc").stdout
        assert t.run("mlpack-oci", "resolve", p.reference).stdout.startswith("digest   ")


def the_artifact_is_a_modelpack(t):
    with Pushed(t) as p:
        kind, text = p.registry.manifests[REPOSITORY]["2"]
        manifest = json.loads(text)
        assert kind == manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json" and digest_of(text) == p.pushed["digest"]
        assert manifest["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
        layer, = manifest["layers"]
        assert layer["mediaType"] == "application/vnd.cncf.model.weight.v1.raw" and layer["digest"] == digest_of(p.data) and layer["size"] == len(p.data)
        assert layer["annotations"] == {"org.cncf.model.filepath": "model.mlc", "org.opencontainers.image.title": "model.mlc"}
        assert manifest["annotations"] == {"mlc.root": p.pushed["root"], "mlc.id": "acme/sample", "mlc.version": "7", "mlc.variants": "portable,x86-64-v2"}
        config = json.loads(p.registry.blobs[REPOSITORY][manifest["config"]["digest"]])
        assert config == {"descriptor": {"name": "acme/sample", "version": "7"}, "config": {"format": "mlc"},
                          "modelfs": {"type": "layers", "diffIds": [layer["digest"]]}}


def resolve_fetches_the_manifest_only(t):
    with Pushed(t) as p:
        answer = t.json("mlpack", "resolve", p.reference)
        assert answer["root"] == p.pushed["root"] and answer["digest"] == answer["manifest"] == p.pushed["digest"] and answer["bytes"] == len(p.data)
        assert answer["variants"] == ["portable", "x86-64-v2"] and answer["version"] == "7"
        assert not p.registry.requests("GET", "/blobs/"), p.registry.log
        t.json("mlpack", "resolve", f"{p.registry.host}/{REPOSITORY}@{answer['digest']}")


def the_tag_is_written_last(t):
    with Pushed(t) as p:
        t.json("mlpack", "push", "s.mlc", f"{p.registry.host}/acme/other:1")
        writes = [entry["path"] for entry in p.registry.log if entry["verb"] == "PUT"]
        assert writes[-1].endswith("/manifests/1") and len(writes) == 3, writes


def the_policy_decides_before_weights_are_fetched(t):
    with Pushed(t, sign=False) as p:
        (t.dir / "strict.json").write_text(STRICT)
        assert p.pull()["trust"] == "unsigned"
        p.registry.log.clear()
        p.pull("--policy", "strict.json", code=10)
        asked = [entry["range"] for entry in p.registry.requests("GET", "/blobs/")]
        assert asked[0] == f"bytes=0-{HEAD - 1}" and len(asked) == 2, asked


def fields_are_those_of_the_page(t):
    fields = Fields()
    with Pushed(t) as p:
        fields.look(p.pushed)
        fields.look(p.pull())
        fields.look(t.json("mlpack", "resolve", p.reference))
        fields.look(p.pull(reference="nothing", code=2))
        fields.look(t.json("mlpack", "push", "s.mlc", "nothing", code=2))
        fields.look(t.json("mlpack", "copy", p.reference, "oci:copied"))
        sample(t, "foreign.mlc", "foreign")
        t.json("mlpack", "push", "foreign.mlc", p.reference)
        fields.look(t.json("mlpack", "pull", p.reference, "-o", "o.mlc", "--keep-host"))
        fields.look(t.json("mlpack", "export", "s.mlc", "--as", "oci-layout", "-o", "layout"))
    assert not {name: fields.unseen(name) for name in ("push", "resolve", "export", "copy") if fields.unseen(name)}
    assert fields.unseen("pull") <= {"warnings[]"}, fields.unseen("pull")


def without_the_program_mlpack_says_so(t):
    alone = t.dir / "home/alone"
    alone.mkdir(parents=True)
    try:
        os.link(t.bin / "mlpack", alone / "mlpack")
    except OSError:
        shutil.copy(t.bin / "mlpack", alone / "mlpack")
    for words in (["push", "s.mlc", "localhost:1/a"], ["pull", "--help"], ["help", "resolve"]):
        done = subprocess.run([str(alone / "mlpack"), *words], cwd=t.dir, env=t.env, capture_output=True, text=True)
        assert done.returncode == 3 and "is done by mlpack-oci, which is not beside mlpack" in done.stderr, done
    assert " push " not in subprocess.run([str(alone / "mlpack"), "--help"], env=t.env, capture_output=True, text=True).stdout
    assert " push " in t.run("mlpack", "--help").stdout
    for program in ("mlpack", "mlpack-oci"):
        assert f"Usage: {program} pull" in t.run(program, "pull", "--help").stdout
    assert t.run("mlpack", "__complete", "pul").stdout.split()[0] == "pull" and "--keep-host" in t.run("mlpack", "__complete", "pull", "--k").stdout


# ---- Uploads

def large_files_go_in_pieces_and_go_on_after_a_cut(t):
    data = sample(t)
    with SmallRegistry() as registry:
        reference = f"{registry.host}/{REPOSITORY}:1"

        def loses(request):  # what arrived is kept, the answer is lost
            if request.verb != "PATCH" or not request.headers["Content-Range"].startswith("524288-"):
                return False
            registry.uploads["u0"] += request.body[:1000]
            request.close_connection = True
            return True
        registry.faults.append(once(loses))
        registry.faults.append(once(lambda request: request.verb == "PATCH" and len(registry.uploads["u0"]) > 1_500_000 and request.answer(503)))
        t.json("mlpack", "push", "s.mlc", reference, "--request-mib", "1")
        assert registry.blobs[REPOSITORY][digest_of(data)] == data
        patches = registry.requests("PATCH")
        assert max(entry["bytes"] for entry in patches) == 1 << 19 and len(patches) >= 6, patches
        assert registry.requests("GET", "/uploads/u0"), "asked how much is there"


def an_upload_that_never_gets_further_ends(t):
    sample(t)
    with SmallRegistry() as registry:
        registry.faults.append(lambda request: request.verb == "PATCH" and request.answer(503))
        answer = t.json("mlpack", "push", "s.mlc", f"{registry.host}/{REPOSITORY}:1", "--request-mib", "1", code=30)
        assert "503" in answer["message"] and not registry.manifests.get(REPOSITORY), answer


def a_damaged_file_is_not_pushed(t):
    data = bytearray(sample(t))
    data[1_000_000] ^= 1
    (t.dir / "s.mlc").write_bytes(data)
    with SmallRegistry() as registry:
        t.json("mlpack", "push", "s.mlc", f"{registry.host}/{REPOSITORY}:1", code=12)
        assert not registry.log


# ---- What is wrong

def wrong_bytes_are_asked_for_once_more(t):
    with Pushed(t) as p:
        def wrong(request):
            if not p.is_blob(request):
                return False
            data = bytearray(p.data)
            data[1_500_000] ^= 1
            return p.registry.answer_bytes(request, bytes(data))
        p.registry.faults.append(once(lambda request: (request.headers.get("Range") or "").startswith("bytes=65536-") and wrong(request)))
        assert p.pull()["requests"] == 4
        p.registry.faults.clear()
        p.fails(wrong, 12, "also when it was asked for once more")


def wrong_bytes_in_what_is_signed_are_refused(t):
    with Pushed(t) as p:
        for offset in (0, 70, 9000, len(p.data) - 100, len(p.data) - 800):
            def wrong(request):
                if not p.is_blob(request):
                    return False
                data = bytearray(p.data)
                data[offset] ^= 1
                return p.registry.answer_bytes(request, bytes(data))
            p.registry.faults.append(wrong)
            answer = p.pull(code=(4, 12))
            p.registry.faults.clear()
            assert answer["message"], answer


def another_file_under_the_same_manifest_is_refused(t):
    with Pushed(t) as p:
        other = sample(t, "other.mlc", 8)
        p.fails(lambda request: p.is_blob(request) and p.registry.answer_bytes(request, other + bytes(max(0, len(p.data) - len(other)))), (4, 12, 30), "")
        manifest = json.loads(p.registry.manifests[REPOSITORY]["2"][1])
        manifest["layers"][0].update(p.registry.put_blob(REPOSITORY, other))
        p.registry.put_manifest(REPOSITORY, "swapped", manifest)
        answer = p.pull(reference=p.reference.replace(":2", ":swapped"), code=12)
        assert "another container than its manifest says" in answer["message"], answer


def cut_transfers_go_on_where_they_ended(t):
    with Pushed(t) as p:
        cuts = []

        def cut(request):
            if not p.is_blob(request) or len(cuts) == 4:
                return False
            cuts.append(1)
            first, last = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
            return request.answer(206, p.data[first:last + 1], {"Content-Range": f"bytes {first}-{last}/{len(p.data)}"},
                                  send=p.data[first:first + min(1_200_000, (last - first) // 2)])
        p.registry.faults.append(cut)
        assert p.pull()["requests"] == 7
        cuts.clear()
        p.registry.faults[0] = lambda request: p.is_blob(request) and request.answer(206, p.data, {"Content-Range": f"bytes 0-{HEAD - 1}/{len(p.data)}"}, send=b"")
        answer = p.pull(code=30)
        assert "again and again" in answer["message"], answer


def a_registry_without_ranges_gives_the_whole_file(t):
    with Pushed(t) as p:
        p.registry.gives_ranges = False
        answer = p.pull()
        assert not answer["ranges"] and "no parts to be had" in t.run("mlpack", "pull", p.reference, "-o", "o.mlc").stdout
        (t.dir / "o.mlc").unlink()
        p.registry.faults.append(once(lambda request: p.is_blob(request) and not request.headers.get("Range") and request.answer(200, p.data, send=p.data[:99_999])))
        p.registry.faults.append(once(lambda request: p.is_blob(request) and not request.headers.get("Range") and request.answer(200, b"x" + p.data[1:])))
        p.pull()
        p.registry.faults.clear()
        p.fails(lambda request: p.is_blob(request) and request.answer(200, b"x" + p.data[1:]), 12, "once more")
        # Ranges that end on the way.
        p.registry.gives_ranges = True
        p.registry.faults.append(lambda request: p.is_blob(request) and (request.headers.get("Range") or "").startswith("bytes=65536-") and request.answer(200, p.data))
        assert not p.pull()["ranges"]


def the_policy_also_decides_over_whole_files(t):
    with Pushed(t, sign=False) as p:
        (t.dir / "strict.json").write_text(STRICT)
        p.registry.gives_ranges = False
        p.pull("--policy", "strict.json", code=10)


def lengths_that_lie_are_refused(t):
    with Pushed(t) as p:
        p.fails(lambda request: p.is_blob(request) and request.answer(206, p.data[1:HEAD + 1], {"Content-Range": f"bytes 1-{HEAD}/{len(p.data)}"}), 30, "other bytes")
        p.fails(lambda request: p.is_blob(request) and request.answer(206, p.data[:HEAD], {"Content-Range": f"bytes 0-{HEAD - 1}/{len(p.data) + 1}"}), 30, "other bytes")
        p.fails(lambda request: p.is_blob(request) and request.answer(206, p.data[:HEAD], {}), 30, "other bytes")
        p.fails(lambda request: p.is_blob(request) and request.answer(206, p.data[:HEAD + 10], {"Content-Range": f"bytes 0-{HEAD - 1}/{len(p.data)}"}), 30, "more than")
        p.registry.gives_ranges = False
        p.fails(lambda request: p.is_blob(request) and request.answer(200, p.data + b"x"), 30, "manifest says")
        p.fails(lambda request: p.is_blob(request) and request.answer(200, p.data[:-1]), 30, "manifest says")
        p.registry.gives_ranges = True
        for size in (len(p.data) + 1, len(p.data) - 1, 5, 0, 1 << 40):
            manifest = json.loads(p.registry.manifests[REPOSITORY]["2"][1])
            manifest["layers"][0]["size"] = size
            p.registry.put_manifest(REPOSITORY, "lies", manifest)
            p.pull(reference=p.reference.replace(":2", ":lies"), code=(4, 7, 12, 30))


def manifests_that_are_none_are_refused(t):
    with Pushed(t) as p:
        good = json.loads(p.registry.manifests[REPOSITORY]["2"][1])
        layer = good["layers"][0]

        def changed(**fields):
            return {**good, **fields}
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json"}
        cases = [(b"", "manifest"), (b"[]", "object"), (b"{", "manifest"), (changed(schemaVersion=1), "schemaVersion"), (changed(layers=[]), "1 expected"),
                 (changed(layers=[layer, layer]), "1 expected"), (changed(layers=5), "list"), (changed(layers=[layer] * 1025), "more than 1024"),
                 (changed(manifests=[]), "is an index and has layers"), (changed(config=None), "neither"),
                 (changed(annotations={"mlc.root": "sha256:zz"}), "root"), (changed(annotations={"mlc.root": 5}), "annotation")]
        for digest in ("sha256:" + "A" * 64, "sha256:" + "a" * 63, "sha512:" + "a" * 128, "../../../etc/passwd", "sha256:" + "a" * 60 + "/../", ""):
            cases.append((changed(layers=[{**layer, "digest": digest}]), "digest"))
        for size in (-1, 1.5, "5", 1 << 60, None):
            cases.append((changed(layers=[{**layer, "size": size}]), "size"))
        for manifest, sentence in cases:
            p.registry.put_manifest(REPOSITORY, "bad", manifest)
            answer = p.pull(reference=p.reference.replace(":2", ":bad"), code=30)
            assert sentence in answer["message"], (manifest, answer)
        # Names in a manifest are names of nothing.
        layer["annotations"] = {"org.opencontainers.image.title": "../../evil", "org.cncf.model.filepath": "/etc/evil"}
        p.registry.put_manifest(REPOSITORY, "names", good)
        p.pull(reference=p.reference.replace(":2", ":names"))
        # Indexes lead to a manifest, once.
        entry = {"mediaType": good["mediaType"], "digest": p.pushed["digest"], "size": len(p.registry.manifests[REPOSITORY]["2"][1])}
        for manifests in ([entry], [entry, entry], [{**entry, "digest": "sha256:" + "0" * 64}, {**entry, "artifactType": good["artifactType"]}]):
            p.registry.put_manifest(REPOSITORY, "index", {**index, "manifests": manifests}, index["mediaType"])
            p.pull(reference=p.reference.replace(":2", ":index"))
        inner = p.registry.put_manifest(REPOSITORY, "index", {**index, "manifests": [entry]}, index["mediaType"])
        p.registry.put_manifest(REPOSITORY, "outer", {**index, "manifests": [{**entry, "digest": inner}]}, index["mediaType"])
        assert "an index in an index" in p.pull(reference=p.reference.replace(":2", ":outer"), code=30)["message"]


def manifests_are_small_and_have_their_digest(t):
    with Pushed(t) as p:
        is_manifest = lambda request: request.verb == "GET" and "/manifests/" in request.path
        p.fails(lambda request: is_manifest(request) and request.answer(200, b" " * (4 << 20) + b"{}"), 30, "more than 4194304 bytes")
        p.fails(lambda request: is_manifest(request) and request.answer(200, b"{}", {"Docker-Content-Digest": "sha256:" + "0" * 64}), 12, "another one")
        p.fails(lambda request: is_manifest(request) and request.answer(404), 30, "is not at")
        pinned = f"{p.registry.host}/{REPOSITORY}@{p.pushed['digest']}"
        p.pull(reference=pinned)
        p.registry.faults.append(lambda request: is_manifest(request) and request.answer(200, p.registry.manifests[REPOSITORY]["2"][1] + b" "))
        assert "another one" in p.pull(reference=pinned, code=12)["message"]
        p.registry.faults[0] = lambda request: is_manifest(request) and request.answer(200, b"{}", {f"X-{k}": "y" * 1000 for k in range(80)})
        assert "header" in p.pull(code=30)["message"]


def a_busy_registry_is_asked_again(t):
    with Pushed(t) as p:
        p.registry.faults.append(once(lambda request: request.answer(429, headers={"Retry-After": "0"})))
        p.registry.faults.append(once(lambda request: p.is_blob(request) and request.answer(503, headers={"Retry-After": "0"})))
        p.pull()
        p.registry.faults.clear()
        p.fails(lambda request: request.answer(429, headers={"Retry-After": "0"}), 30, "429")
        assert len(p.registry.requests("GET", "/manifests/")) >= 5
        p.fails(lambda request: request.answer(429, headers={"Retry-After": "86400"}), 30, "86400 seconds")
        p.fails(lambda request: request.answer(418, b'{"errors":[{"code":"TEAPOT","message":"short\\u001b[31m"}]}'), 30, "TEAPOT: short")


# ---- Who asks, and where that leads

def docker_config(t, config):
    folder = t.dir / "home/docker"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    t.env["DOCKER_CONFIG"] = str(folder)


def credentials_come_from_the_config_of_docker(t):
    for by_token in (True, False):
        with SmallRegistry() as registry:
            registry.users, registry.by_token = {"bob": "se:cret"}, by_token
            data = sample(t)
            reference = f"{registry.host}/{REPOSITORY}:1"
            docker_config(t, {})
            answer = t.json("mlpack", "push", "s.mlc", reference, code=30)
            assert "docker login" in answer["help"], answer
            auth = base64.b64encode(b"bob:se:cret").decode()
            docker_config(t, {"auths": {"other.example.org": {"auth": "eA=="}, registry.host: {"auth": auth}}})
            t.json("mlpack", "push", "s.mlc", reference)
            t.json("mlpack", "pull", reference, "-o", "o.mlc")
            assert (t.dir / "o.mlc").read_bytes() == data
            docker_config(t, {"auths": {registry.host: {"auth": base64.b64encode(b"bob:wrong").decode()}}})
            answer = t.json("mlpack", "pull", reference, "-o", "o2.mlc", code=30)
            assert "wrong" not in json.dumps(answer) and not (t.dir / "o2.mlc").exists()
            docker_config(t, {"auths": {registry.host: {"auth": "no base64"}}})
            t.json("mlpack", "pull", reference, "-o", "o2.mlc", code=2)


def credentials_come_from_helpers(t):
    with SmallRegistry() as registry:
        registry.users = {"bob": "se:cret"}
        sample(t)
        folder = t.dir / "home/helpers"
        folder.mkdir(parents=True)
        program = folder / "docker-credential-test"
        program.write_text(f"""#!/bin/sh
read host
[ "$1 $host" = "get {registry.host}" ] || {{ echo "credentials not found in native keychain"; exit 1; }}
echo '{{"ServerURL":"x","Username":"bob","Secret":"se:cret"}}'
""")
        program.chmod(0o755)
        t.env["PATH"] = f"{folder}:{os.environ['PATH']}"
        docker_config(t, {"credHelpers": {registry.host: "test"}})
        t.json("mlpack", "push", "s.mlc", f"{registry.host}/{REPOSITORY}:1")
        docker_config(t, {"credsStore": "test"})
        t.json("mlpack", "pull", f"{registry.host}/{REPOSITORY}:1", "-o", "o.mlc")
        for name in ("../evil", "test/../test", "", "missing"):
            docker_config(t, {"credHelpers": {registry.host: name}})
            t.json("mlpack", "pull", f"{registry.host}/{REPOSITORY}:1", "-o", "o2.mlc", code=2)
        assert not (t.dir / "o2.mlc").exists()


def no_credentials_follow_a_redirect_to_another_host(t):
    data = sample(t)
    with SmallRegistry() as registry, SmallRegistry() as storage:
        registry.users, registry.by_token = {"bob": "secret"}, False
        docker_config(t, {"auths": {registry.host: {"auth": base64.b64encode(b"bob:secret").decode()}}})
        reference = f"{registry.host}/{REPOSITORY}:1"
        digest = t.json("mlpack", "push", "s.mlc", reference)["blob"]
        storage.put_blob(REPOSITORY, data)
        registry.faults.append(lambda request: request.verb == "GET" and "/blobs/" in request.path and request.headers.get("Authorization") and
                               request.answer(307, headers={"Location": f"http://{storage.host}/v2/{REPOSITORY}/blobs/{digest}"}))
        t.json("mlpack", "pull", reference, "-o", "o.mlc")
        assert (t.dir / "o.mlc").read_bytes() == data
        assert storage.log and all(entry["authorization"] is None for entry in storage.log), storage.log
        assert all(entry["range"] for entry in storage.log)


def redirects_lead_nowhere_else(t):
    with Pushed(t) as p:
        p.fails(lambda request: p.is_blob(request) and request.answer(302, headers={"Location": request.full_path}), 30, "more than 5 times")
        for place in ("file:///etc/passwd", "ftp://x.example.org/", "gopher://x", "", "http://user:pw@127.0.0.1/"):
            p.fails(lambda request: p.is_blob(request) and request.answer(302, headers={"Location": place}), 30, "not followed")
    with SmallRegistry() as registry:
        sample(t)
        for place in ("file:///tmp/x", ""):
            registry.faults[:] = [lambda request: request.verb == "POST" and request.answer(202, headers={"Location": place})]
            assert "no usable place" in t.json("mlpack", "push", "s.mlc", f"{registry.host}/a/b:1", code=30)["message"]
        registry.faults[:] = [lambda request: request.verb == "POST" and request.answer(307, headers={"Location": "/elsewhere"})]
        t.json("mlpack", "push", "s.mlc", f"{registry.host}/a/b:1", code=30)


def tokens_are_fetched_from_where_it_is_safe(t):
    with Pushed(t) as p:
        for challenge in ('Bearer realm="ftp://x/"', 'Bearer realm="file:///etc/passwd"', "Bearer", 'Bearer realm="http://u:p@127.0.0.1/"', 'Bearer realm="x', "Negotiate abc="):
            p.fails(lambda request: "/manifests/" in request.path and request.answer(401, headers={"WWW-Authenticate": challenge}), 30, "")
        for body in (b"", b"{}", b'{"token":5}', b'{"token":"a\\r\\nX: y"}', b" " * 70_000):
            p.registry.faults[:] = [lambda request: request.path == "/token" and request.answer(200, body)]
            p.registry.users = {"bob": "x"}
            p.pull(code=30)
            p.registry.faults.clear()
            p.registry.users = None
        p.pull()


def references_are_what_the_grammar_says(t):
    sample(t)
    for reference in ("cat", "acme/cat", "acme/cat:2", "localhost:5000", "localhost:5000/", "localhost:5000/Acme/cat", "localhost:99999/a", "localhost:/a", "x.org/a//b", "x.org/../a",
                      "x.org/a:", "x.org/a:.b", "x.org/a:b/c", "x.org/a@sha256:" + "A" * 64, "x.org/a@md5:00", "https://x.org/a", "user@x.org/a", "x.org/a?b", "[::1/a", "x..org/a", "x.org/" + "a" * 300,
                      "x-.org/a", "x.org/a b", "x.org/a\n"):
        answer = t.json("mlpack", "resolve", reference, code=2)
        assert "names no artifact" in answer["message"], answer
    answer = t.json("mlpack", "push", "s.mlc", "localhost:1/a@sha256:" + "a" * 64, code=2)
    assert "digest" in answer["message"], answer
    answer = t.json("mlpack", "resolve", "localhost:1/a", code=30)
    assert "no answer from localhost:1" in answer["message"], answer


def what_stands_at_the_output_is_no_accident(t):
    with Pushed(t) as p:
        (t.dir / "notes.txt").write_text("notes")
        t.json("mlpack", "pull", p.reference, "-o", "notes.txt", code=2)
        assert (t.dir / "notes.txt").read_text() == "notes" and not p.registry.log
        t.json("mlpack", "pull", p.reference, "-o", "notes.txt", "--force")
        t.json("mlpack", "pull", p.reference, "-o", "no/such/o.mlc", code=3)
        t.json("mlpack", "pull", p.reference, "-o", "s.mlc", "--from", "s.mlc")  # over what is read
        assert (t.dir / "s.mlc").read_bytes() == p.data


def a_signal_leaves_nothing(t):
    with Pushed(t) as p:
        started = []

        def waits(request):
            if not p.is_blob(request) or not (request.headers.get("Range") or "").startswith("bytes=65536-"):
                return False
            started.append(1)
            process.terminate()
            process.wait()
            return request.answer(404)
        p.registry.faults.append(waits)
        before = names(t)
        process = subprocess.Popen([str(t.bin / "mlpack"), "pull", p.reference, "-o", "o.mlc"], cwd=t.dir, env=t.env)
        assert process.wait() == -15 and started and names(t) == before


def what_this_machine_cannot_run_is_left_out(t):
    data = sample(t, "s.mlc", "foreign")
    with SmallRegistry() as registry:
        reference = f"{registry.host}/{REPOSITORY}:2"

        def pulled(*flags):
            registry.bytes_out = 0
            answer = t.json("mlpack", "pull", reference, "-o", "o.mlc", "--keep-host", *flags)
            assert "foreign" in answer["absent"] and answer["root"] == root and answer["bytes"] == len(data), answer
            t.json("mlpack", "verify", "o.mlc", "--deep")
            return (t.dir / "o.mlc").read_bytes(), answer
        for shape in ("modelpack", "image"):
            root = t.json("mlpack", "push", "s.mlc", reference, "--shape", shape)["root"]
            thin, answer = pulled()
            assert answer["bytes_written"] == len(thin) < len(data) - 900_000 and registry.bytes_out < len(data) - 700_000
            # It is what `thin` makes, and `fill` puts back what is missing.
            kept = {"x86-64-v2", "foreign"} - set(answer["absent"])
            t.json("mlpack", "thin", "s.mlc", "--keep", ",".join(kept or {"portable"}), "-o", "thin.mlc")
            assert (t.dir / "thin.mlc").read_bytes() == thin
            t.json("mlpack", "fill", "o.mlc", "--from", "s.mlc")
            assert (t.dir / "o.mlc").read_bytes() == data
            assert pulled("--from", "s.mlc")[0] == thin and registry.bytes_out < 300_000
            registry.gives_ranges = False
            assert pulled()[0] == thin
            registry.gives_ranges = True
        assert "absent   foreign" in t.run("mlpack", "pull", reference, "-o", "o.mlc", "--keep-host").stdout
        (t.dir / "whole.json").write_text('{"rules":[{"models":["*"],"level":"permissive","require_complete":true}]}')
        before = names(t)
        t.json("mlpack", "pull", reference, "-o", "p.mlc", "--keep-host", "--policy", "whole.json", code=5)
        assert names(t) == before
    with Pushed(t, sign=False) as p:
        (t.dir / "o.mlc").unlink()
        assert "--keep-host" in p.pull("--keep-host", code=10)["message"]


# ---- Images and layouts

def layer_of(registry, reference):
    manifest = json.loads(registry.manifests[REPOSITORY][reference][1])
    return registry.blobs[REPOSITORY][manifest["layers"][0]["digest"]], manifest


def images_hold_the_file_in_a_tar(t):
    with Pushed(t) as p:
        image = t.json("mlpack", "push", "s.mlc", p.reference.replace(":2", ":image"), "--shape", "image")
        tar, manifest = layer_of(p.registry, "image")
        with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
            members = [(m.name, m.size, m.mode, m.mtime, m.uid, m.gid, m.uname, m.isdir()) for m in opened]
            assert members == [("models", 0, 0o755, 0, 0, 0, "", True), ("models/model.mlc", len(p.data), 0o444, 0, 0, 0, "", False)], members
            assert opened.extractfile("models/model.mlc").read() == p.data
        config = json.loads(p.registry.blobs[REPOSITORY][manifest["config"]["digest"]])
        assert manifest["config"]["mediaType"] == "application/vnd.oci.image.config.v1+json" and config["rootfs"]["diff_ids"] == [digest_of(tar)] == [image["blob"]]
        assert "artifactType" not in manifest and manifest["annotations"]["mlc.root"] == p.pushed["root"]
        for gives_ranges in (True, False):
            p.registry.gives_ranges = gives_ranges
            assert p.pull(reference=p.reference.replace(":2", ":image"))["bytes"] == len(p.data)
        p.registry.gives_ranges = True
        old = t.json("mlpack", "pull", p.reference.replace(":2", ":image"), "--from", "s.mlc", "-o", "s.mlc")
        assert old["bytes_reused"] >= 2_400_000 and old["bytes_fetched"] < 200_000, old
        both = t.json("mlpack", "push", "s.mlc", p.reference.replace(":2", ":both"), "--shape", "both")
        kind, text = p.registry.manifests[REPOSITORY]["both"]
        entries = json.loads(text)["manifests"]
        assert kind == "application/vnd.oci.image.index.v1+json" and both["was_there"]
        assert [entry["digest"] for entry in entries] == [p.pushed["digest"]] + [image["digest"]] * 3, entries
        assert [entry.get("platform", {}).get("architecture") for entry in entries] == [None, "amd64", "arm64", "riscv64"]
        p.pull(reference=p.reference.replace(":2", ":both"))
        p.pull(reference=f"{p.registry.host}/{REPOSITORY}@{both['digest']}")


def tars_that_are_none_are_refused(t):
    with Pushed(t) as p:
        reference = p.reference.replace(":2", ":image")
        t.json("mlpack", "push", "s.mlc", reference, "--shape", "image")
        tar, manifest = layer_of(p.registry, "image")

        def made(*members, **how):
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w", **how) as archive:
                for name, data, kind in members:
                    info = tarfile.TarInfo(name)
                    info.size, info.type = len(data), kind
                    if kind == tarfile.SYMTYPE:
                        info.linkname = "/etc/passwd"
                    archive.addfile(info, io.BytesIO(data))
            return out.getvalue()
        good = ("models/model.mlc", p.data, tarfile.REGTYPE)
        sizes = [bytearray(tar) for _ in range(3)]
        for wrong, text in zip(sizes, (b"77777777777\0", b"\x80" + b"\xff" * 11, b"00000000000\0")):
            wrong[512 + 124:512 + 136] = text
            wrong[512 + 148:512 + 156] = b" " * 8
            wrong[512 + 148:512 + 156] = b"%06o\0 " % sum(wrong[512:1024])
        cases = [tar[:1024], tar[:700], bytes(4096), gzip.compress(tar), made(("models/other", p.data, tarfile.REGTYPE)), made(("models/model.mlc", b"", tarfile.SYMTYPE)),
                 made(("a", b"x" * 100_000, tarfile.REGTYPE), good), made(good, ("b", b"y" * 100_000, tarfile.REGTYPE)), made(("./models/model.mlc", p.data, tarfile.REGTYPE)), *map(bytes, sizes)]
        for wrong in cases:
            manifest["layers"][0].update(p.registry.put_blob(REPOSITORY, wrong))
            p.registry.put_manifest(REPOSITORY, "wrong", manifest)
            for gives_ranges in (True, False):
                p.registry.gives_ranges = gives_ranges
                p.pull(reference=p.reference.replace(":2", ":wrong"), code=(4, 30))
        p.registry.gives_ranges = True
        manifest["layers"][0].update(p.registry.put_blob(REPOSITORY, made(good, ("b", b"y", tarfile.REGTYPE))))  # what others make
        p.registry.put_manifest(REPOSITORY, "others", manifest)
        p.pull(reference=p.reference.replace(":2", ":others"))
        for offset in (600, len(tar) - 1):  # around the file, where no leaf is
            def wrong_byte(request):
                data = bytearray(tar)
                data[offset] ^= 1
                return request.verb == "GET" and request.path.endswith(digest_of(tar)) and p.registry.answer_bytes(request, bytes(data))
            p.registry.faults[:] = [wrong_byte]
            p.pull(reference=reference, code=(12, 30))


def layouts_appear_complete_or_not_at_all(t):
    data = sample(t)
    exported = t.json("mlpack", "export", "s.mlc", "--as", "oci-layout", "-o", "layout")
    assert json.loads((t.dir / "layout/oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((t.dir / "layout/index.json").read_text())
    assert [entry["digest"] for entry in index["manifests"]] == [exported["digest"]]
    assert index["manifests"][0]["annotations"] == {"org.opencontainers.image.ref.name": "latest"}
    for path in (t.dir / "layout/blobs/sha256").iterdir():
        assert digest_of(path.read_bytes()) == "sha256:" + path.name
    assert (t.dir / "layout/blobs/sha256" / exported["blob"][7:]).read_bytes() == data
    before = names(t)
    t.json("mlpack", "export", "s.mlc", "--as", "oci-layout", "-o", "layout", code=2)
    t.json("mlpack", "export", "s.mlc", "--as", "oci-layout", "-o", "other", "--tag", "../x", code=2)
    t.json("mlpack", "export", "s.mlc", "--as", "oci-layout", "-o", "no/such/other", code=3)
    t.json("mlpack", "export", "missing.mlc", "--as", "modelcar", "-o", "other", code=3)
    damaged = bytearray(data)
    damaged[1_000_000] ^= 1
    (t.dir / "s.mlc").write_bytes(damaged)
    t.json("mlpack", "export", "s.mlc", "--as", "modelcar", "-o", "other", code=12)
    assert names(t) == before


# ---- Copies

def tagged(registry, subject):
    return {entry["digest"] for entry in json.loads(registry.manifests[REPOSITORY][subject.replace(":", "-")][1])["manifests"]}


def copies_take_their_referrers_along(t):
    for listed_there, listed_here in ((2, None), (None, 2), (None, None)):
        with Pushed(t) as p, SmallRegistry() as mirror:
            p.registry.lists_referrers, mirror.lists_referrers = listed_there, listed_here
            subject = p.pushed["digest"]
            referrers = {p.registry.attach(REPOSITORY, subject, b"signature %d" % k) for k in range(5)}
            of_referrer = p.registry.attach(REPOSITORY, min(referrers), b"a signature of a signature")
            to = f"{mirror.host}/{REPOSITORY}:mirrored"
            answer = t.json("mlpack", "copy", p.reference, to)
            assert answer["digest"] == subject and answer["referrers"] == 6 and answer["manifests"] == 7 and answer["to"] == to, answer
            assert tagged(mirror, subject) == referrers and tagged(mirror, min(referrers)) == {of_referrer}
            for digest in (subject, of_referrer, *referrers):
                assert mirror.manifests[REPOSITORY][digest] == p.registry.manifests[REPOSITORY][digest]
            assert [entry["path"] for entry in mirror.log if entry["verb"] == "PUT"][-1].endswith("/mirrored"), "the tag is last"
            p.pull(reference=to)
            assert t.json("mlpack", "copy", p.reference, to)["bytes"] == 0
            # What the mirror had is still in its listing.
            own = mirror.attach(REPOSITORY, subject, b"of the mirror")
            t.json("mlpack", "copy", p.reference, to)
            assert tagged(mirror, subject) == referrers | {own} or listed_here
            assert referrers <= tagged(mirror, subject)


def copies_go_through_a_folder(t):
    with Pushed(t) as p, SmallRegistry() as mirror:
        referrers = {p.registry.attach(REPOSITORY, p.pushed["digest"], b"signature %d" % k) for k in range(2)}
        both = t.json("mlpack", "push", "s.mlc", p.reference.replace(":2", ":both"), "--shape", "both")
        out = t.json("mlpack", "copy", p.reference, "oci:carried:v1")
        assert out["referrers"] == 2 and (t.dir / "carried/index.json").is_file()
        assert t.json("mlpack", "copy", "oci:carried:v1", f"{mirror.host}/{REPOSITORY}:2")["referrers"] == 2
        assert tagged(mirror, p.pushed["digest"]) == referrers
        p.pull(reference=f"{mirror.host}/{REPOSITORY}:2")
        t.json("mlpack", "copy", p.reference.replace(":2", ":both"), "oci:index")
        assert t.json("mlpack", "copy", "oci:index", f"{mirror.host}/{REPOSITORY}:both")["digest"] == both["digest"]
        assert (t.dir / "index/index.json").read_text().count("org.opencontainers.image.ref.name") == 2  # the tag, and the listing
        t.json("mlpack", "copy", p.reference, "oci:carried", code=2)
        t.json("mlpack", "copy", "oci:carried:none", f"{mirror.host}/{REPOSITORY}:x", code=30)
        t.json("mlpack", "copy", "oci:missing", f"{mirror.host}/{REPOSITORY}:x", code=3)
        t.json("mlpack", "copy", p.reference, f"{mirror.host}/{REPOSITORY}@{both['digest']}", code=2)
        blob = t.dir / "carried/blobs/sha256" / p.blob[7:]
        blob.write_bytes(b"x" + blob.read_bytes()[1:])
        mirror.blobs.clear()
        before = dict(mirror.manifests[REPOSITORY])
        t.json("mlpack", "copy", "oci:carried:v1", f"{mirror.host}/{REPOSITORY}:damaged", code=12)
        assert mirror.manifests[REPOSITORY] == before and p.blob not in mirror.blobs.get(REPOSITORY, {})


def copies_believe_no_listing(t):
    with Pushed(t) as p, SmallRegistry() as mirror:
        to = f"{mirror.host}/{REPOSITORY}:2"
        subject = p.pushed["digest"]
        stranger = p.registry.put_manifest(REPOSITORY, "stranger", {"schemaVersion": 2, "config": {"digest": subject, "size": 1}, "layers": []})
        entry = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": stranger, "size": 1}
        index = {"schemaVersion": 2, "manifests": [entry, {**entry, "digest": subject}]}
        p.registry.put_manifest(REPOSITORY, subject.replace(":", "-"), index)
        assert t.json("mlpack", "copy", p.reference, to)["referrers"] == 0
        assert stranger not in mirror.manifests[REPOSITORY]
        index["manifests"] = [{**entry, "digest": "sha256:" + "0" * 64}]
        p.registry.put_manifest(REPOSITORY, subject.replace(":", "-"), index)
        t.json("mlpack", "copy", p.reference, to, code=30)
        # A chain of signatures of signatures ends somewhere.
        below = subject
        p.registry.lists_referrers = 2
        for _ in range(12):
            below = p.registry.attach(REPOSITORY, below, b"again")
        assert "below each other" in t.json("mlpack", "copy", p.reference, to, code=30)["message"]
        p.registry.faults.append(lambda request: "/referrers/" in request.path and
                                 request.answer(200, b'{"schemaVersion":2,"manifests":[]}', {"Link": f'<{request.full_path}>; rel="next"'}))
        p.registry.manifests[REPOSITORY].pop(subject.replace(":", "-"))
        assert "64 pages" in t.json("mlpack", "copy", p.reference, to, code=30)["message"]
        p.registry.faults[:] = [lambda request: "/referrers/" in request.path and
                                request.answer(200, b'{"schemaVersion":2,"manifests":[]}', {"Link": '<http://127.0.0.2:1/x>; rel="next"'})]
        assert "elsewhere" in t.json("mlpack", "copy", p.reference, to, code=30)["message"]


# ---- Updates

def an_update_moves_what_is_new_only(t):
    old = sample(t, "old.mlc", "large", "98", "1")
    with Pushed(t, "large", "98", "3") as p:
        assert len(p.data) > 102_000_000 and p.data != old
        p.registry.bytes_out = 0
        answer = p.pull("--from", "old.mlc")
        assert p.registry.bytes_out == answer["bytes_fetched"] <= 300_000, (p.registry.bytes_out, answer)
        assert answer["bytes_reused"] > 102_000_000 and answer["ranges"]
        # A file that is not what it was is no source of bytes.
        damaged = bytearray(old)
        damaged[50_000_000] ^= 1
        (t.dir / "old.mlc").write_bytes(damaged)
        p.registry.bytes_out = 0
        answer = p.pull("--from", "old.mlc")
        assert 1 << 20 < p.registry.bytes_out <= (1 << 20) + 300_000, p.registry.bytes_out
        p.pull("--from", "s.mlc", "--from", "old.mlc")


def parts_are_taken_only_where_somebody_vouches_for_the_whole(t):
    with Pushed(t, sign=False) as p:
        sample(t, "old.mlc", 6, sign=False)
        answer = p.pull("--from", "old.mlc", code=10)
        assert "@sha256:" in answer["help"], answer
        pinned = f"{p.registry.host}/{REPOSITORY}@{p.pushed['digest']}"
        assert p.pull("--from", "old.mlc", reference=pinned)["bytes_reused"] > 2_000_000
        p.pull("--from", "nothing.mlc", reference=pinned, code=3)


main([
    what_is_pushed_comes_back_bit_for_bit, the_artifact_is_a_modelpack, resolve_fetches_the_manifest_only, the_tag_is_written_last,
    the_policy_decides_before_weights_are_fetched, without_the_program_mlpack_says_so, fields_are_those_of_the_page, large_files_go_in_pieces_and_go_on_after_a_cut,
    an_upload_that_never_gets_further_ends, a_damaged_file_is_not_pushed, wrong_bytes_are_asked_for_once_more, wrong_bytes_in_what_is_signed_are_refused,
    another_file_under_the_same_manifest_is_refused, cut_transfers_go_on_where_they_ended, a_registry_without_ranges_gives_the_whole_file,
    the_policy_also_decides_over_whole_files, lengths_that_lie_are_refused, manifests_that_are_none_are_refused, manifests_are_small_and_have_their_digest,
    a_busy_registry_is_asked_again, credentials_come_from_the_config_of_docker, credentials_come_from_helpers,
    no_credentials_follow_a_redirect_to_another_host, redirects_lead_nowhere_else, tokens_are_fetched_from_where_it_is_safe,
    references_are_what_the_grammar_says, what_stands_at_the_output_is_no_accident, a_signal_leaves_nothing, what_this_machine_cannot_run_is_left_out,
    images_hold_the_file_in_a_tar, tars_that_are_none_are_refused, layouts_appear_complete_or_not_at_all, copies_take_their_referrers_along,
    copies_go_through_a_folder, copies_believe_no_listing, an_update_moves_what_is_new_only, parts_are_taken_only_where_somebody_vouches_for_the_whole,
])
