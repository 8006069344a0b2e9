"""Policy bundles by way of a registry: byte for byte, looked at for their form; what they are worth is decided where they are installed."""
import json

from pushed import REPOSITORY, names, once, sample
from json_test import Fields
from small_registry import SmallRegistry, digest_of
from tool_test import main

TYPE = "application/vnd.mlc.policy.v1+json"
LIMIT = 8 << 20


def bundle(t, *versions):
    """A chain of one administrator."""
    if not (t.dir / "a.pem").exists():
        t.run("mlpack", "keygen", "-o", "a.pem")
    key = {"id": "a", "pem": (t.dir / "a.pub.pem").read_text()}
    lines = []
    for version in versions:
        whole = {"version": version, "expires": "2999-01-01T00:00:00Z", "administrators": {"threshold": 1, "keys": [key]}}
        (t.dir / "policy.json").write_text(json.dumps(whole))
        (t.dir / "one.bundle").unlink(missing_ok=True)
        t.run("mlpack", "policy", "sign", "policy.json", "--key", "a.pem", "-o", "one.bundle")
        lines.append((t.dir / "one.bundle").read_bytes())
    (t.dir / "p.bundle").write_bytes(b"".join(lines))
    return b"".join(lines)


class Travelled:
    """A registry that has p.bundle as :2."""

    def __init__(self, t, *versions):
        self.t, self.registry, self.data = t, SmallRegistry(), bundle(t, *versions)

    def __enter__(self):
        self.registry.__enter__()
        self.reference = f"{self.registry.host}/{REPOSITORY}:2"
        self.pushed = self.t.json("mlpack", "push", "p.bundle", self.reference)
        return self

    def __exit__(self, *what):
        self.registry.__exit__(*what)

    def manifest(self):
        return json.loads(self.registry.manifests[REPOSITORY]["2"][1])

    def put(self, data, **changes):
        manifest = self.manifest()
        manifest["layers"][0].update(self.registry.put_blob(REPOSITORY, data), **changes)
        self.registry.put_manifest(REPOSITORY, "bad", manifest)

    def pull(self, *flags, code=0, tag="2"):
        before = names(self.t)
        answer = self.t.json("mlpack", "pull", f"{self.registry.host}/{REPOSITORY}:{tag}", "-o", "o.bundle", *flags, code=code)
        if code == 0:
            assert (self.t.dir / "o.bundle").read_bytes() == self.data
            (self.t.dir / "o.bundle").unlink()
        assert names(self.t) == before, "nothing is left behind"
        return answer


def a_bundle_comes_back_and_is_installed(t):
    with Travelled(t, 1, 2) as p:
        fields = Fields()
        assert p.pushed["kind"] == "policy" and p.pushed["version"] == "2" and p.pushed["blob"] == digest_of(p.data)
        manifest = p.manifest()
        layer, = manifest["layers"]
        assert manifest["artifactType"] == layer["mediaType"] == TYPE and manifest["annotations"] == {"mlc.policy.version": "2"}
        assert p.registry.blobs[REPOSITORY][manifest["config"]["digest"]] == b"{}"
        answer = p.pull()
        assert (answer["kind"], answer["version"], answer["bundles"], answer["signatures"]) == ("policy", "2", 2, 1), answer
        resolved = t.json("mlpack", "resolve", p.reference)
        assert resolved["kind"] == "policy" and resolved["version"] == "2" and "root" not in resolved
        for one in (p.pushed, answer, resolved):
            fields.look(one)
        again = t.json("mlpack", "push", "p.bundle", p.reference)
        assert again["was_there"] and again["digest"] == p.pushed["digest"]
        # Through a layout, as a registry without network gets it.
        t.json("mlpack", "copy", p.reference, "oci:layout")
        t.json("mlpack", "copy", "oci:layout", p.reference.replace(":2", ":3"))
        t.run("mlpack", "pull", p.reference.replace(":2", ":3"), "-o", "o.bundle")
        installed = t.json("mlrun", "trust", "--install", "o.bundle", "--trust-first", "a.pub.pem", "--policy", t.dir / "etc/trust.json")
        assert installed["installed"] and installed["version"] == "2", installed


def what_is_no_bundle_is_neither_sent_nor_written(t):
    with Travelled(t, 1) as p:
        held = dict(p.registry.manifests[REPOSITORY])
        for text in (b"{", b"{}\n", p.data[:-1], p.data + b"\n", p.data.replace(b"urn:mlc:policy/v1", b"urn:mlc:policy/v2"), b"{" + b" " * LIMIT):
            (t.dir / "bad.bundle").write_bytes(text)
            t.json("mlpack", "push", "bad.bundle", p.reference, code=(2, 4))
            p.put(text)
            p.pull(tag="bad", code=(2, 4, 30))
        assert {"2": p.registry.manifests[REPOSITORY]["2"]} == {"2": held["2"]}
        p.put(b"")
        p.pull(tag="bad", code=(4, 30))
        p.registry.log.clear()
        p.put(p.data, size=LIMIT + 1)
        answer = p.pull(tag="bad", code=30)
        assert f"{LIMIT} at most" in answer["message"] and not p.registry.requests("GET", "/blobs/"), "its size is enough"
        p.put(p.data, size=len(p.data) - 1)
        p.pull(tag="bad", code=(12, 30))
        # A container that calls itself a policy, and the other way round.
        p.put(sample(t))
        p.pull(tag="bad", code=4)
        manifest = p.manifest()
        manifest["layers"] *= 2
        p.registry.put_manifest(REPOSITORY, "bad", manifest)
        assert "holds no container" in p.pull(tag="bad", code=30)["message"]
        manifest = p.manifest()
        manifest["layers"][0]["mediaType"] = "application/vnd.cncf.model.weight.v1.raw"
        p.registry.put_manifest(REPOSITORY, "bad", manifest)
        p.pull(tag="bad", code=4)


def wrong_bytes_are_asked_for_once_more(t):
    with Travelled(t, 1) as p:
        wrong = lambda request: request.verb == "GET" and request.path.endswith(p.pushed["blob"]) and request.answer(200, p.data.swapcase())
        p.registry.faults.append(once(wrong))
        p.pull()
        p.registry.faults.append(wrong)
        assert "policy bundle does not match" in p.pull(code=12)["message"]


def flags_of_containers_are_refused_and_files_stay(t):
    with Travelled(t, 1) as p:
        for flags in (("--shape", "parts"), ("--sign",), ("--attach", "x")):
            assert "is for containers" in t.json("mlpack", "push", "p.bundle", p.reference, *flags, code=2)["message"]
        for flags in (("--from", "x"), ("--keep-host",), ("--policy", "x")):
            assert "is for containers" in p.pull(*flags, code=2)["message"]
        data = sample(t, "s.mlc")
        for name in ("s.mlc", "p.bundle"):  # a policy takes the place of nothing that was not meant
            t.json("mlpack", "pull", p.reference, "-o", name, code=2)
        assert (t.dir / "s.mlc").read_bytes() == data
        t.json("mlpack", "pull", p.reference, "-o", "s.mlc", "--force")
        assert (t.dir / "s.mlc").read_bytes() == p.data


main([a_bundle_comes_back_and_is_installed, what_is_no_bundle_is_neither_sent_nor_written, wrong_bytes_are_asked_for_once_more,
      flags_of_containers_are_refused_and_files_stay])
