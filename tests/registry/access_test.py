"""Who asks a registry, how it is named, and where its answers may lead."""
import base64
import json
import os

from pushed import REPOSITORY, Pushed, sample
from small_registry import SmallRegistry
from tool_test import main


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
        for challenge in ('Bearer realm="ftp://x/"', 'Bearer realm="file:///etc/passwd"', "Bearer", 'Bearer realm="http://u:p@127.0.0.1/"',
                          'Bearer realm="x', "Negotiate abc="):
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
    for reference in ("cat", "acme/cat", "acme/cat:2", "localhost:5000", "localhost:5000/", "localhost:5000/Acme/cat", "localhost:99999/a", "localhost:/a",
                      "x.org/a//b", "x.org/../a", "x.org/a:", "x.org/a:.b", "x.org/a:b/c", "x.org/a@sha256:" + "A" * 64, "x.org/a@md5:00", "https://x.org/a",
                      "user@x.org/a", "x.org/a?b", "[::1/a", "x..org/a", "x.org/" + "a" * 300, "x-.org/a", "x.org/a b", "x.org/a\n"):
        answer = t.json("mlpack", "resolve", reference, code=2)
        assert "names no artifact" in answer["message"], answer
    answer = t.json("mlpack", "push", "s.mlc", "localhost:1/a@sha256:" + "a" * 64, code=2)
    assert "digest" in answer["message"], answer
    answer = t.json("mlpack", "resolve", "localhost:1/a", code=30)
    assert "no answer from localhost:1" in answer["message"], answer


main([
    credentials_come_from_the_config_of_docker, credentials_come_from_helpers, no_credentials_follow_a_redirect_to_another_host,
    redirects_lead_nowhere_else, tokens_are_fetched_from_where_it_is_safe, references_are_what_the_grammar_says,
])
