"""Statements that go into a registry with a container: what cosign and others look for, and what copies take along."""
import base64
import hashlib
import json
import subprocess

from pushed import REPOSITORY, Pushed, sample, tagged
from small_registry import SmallRegistry, digest_of
from tool_test import main

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
COSIGN, SLSA, OMS = "https://sigstore.dev/cosign/sign/v1", "https://slsa.dev/provenance/v1", "https://model_signing/signature/v1.0"


def statements(registry, subject):
    """{type of predicate: statement} of the bundles that refer to a manifest, whose shape is looked at."""
    found = {}
    for digest in tagged(registry, subject):
        manifest = json.loads(registry.manifests[REPOSITORY][digest][1])
        assert manifest["artifactType"] == BUNDLE and manifest["subject"]["digest"] == subject, manifest
        assert registry.blobs[REPOSITORY][manifest["config"]["digest"]] == b"{}" and len(manifest["layers"]) == 1, manifest
        assert manifest["annotations"]["dev.sigstore.bundle.content"] == "dsse-envelope", manifest
        bundle = json.loads(registry.blobs[REPOSITORY][manifest["layers"][0]["digest"]])
        found[manifest["annotations"]["dev.sigstore.bundle.predicateType"]] = bundle
    return found


def payload_of(bundle):
    return base64.b64decode(bundle["dsseEnvelope"]["payload"])


def a_signed_push_is_signed_for_cosign(t):
    with Pushed(t) as p:
        t.run("mlpack", "keygen", "-o", "k.pem")
        pushed = t.json("mlpack", "push", "s.mlc", p.reference, "--sign", "--key", "k.pem")
        assert pushed["digest"] == p.pushed["digest"] and pushed["statements"] == [COSIGN], pushed
        bundle = statements(p.registry, pushed["digest"])[COSIGN]
        payload = payload_of(bundle)
        assert json.loads(payload) == {"_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": pushed["digest"][7:]}}],
                                       "predicateType": COSIGN, "predicate": {}}, payload
        (t.dir / "signed").write_bytes(b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload)
        (t.dir / "value").write_bytes(base64.b64decode(bundle["dsseEnvelope"]["signatures"][0]["sig"]))
        subprocess.run(["openssl", "dgst", "-sha256", "-verify", "k.pub.pem", "-signature", "value", "signed"], cwd=t.dir, check=True, capture_output=True)
        puts = [entry["path"] for entry in p.registry.log if entry["verb"] == "PUT"]
        assert puts[-1].endswith("/manifests/2"), "the tag is last"
        refused = t.json("mlpack", "push", "s.mlc", p.reference, "--key", "k.pem", code=2)
        assert refused["message"] == "--key and --key-passphrase belong to --sign", refused


def attached_statements_go_along_and_stay(t):
    with Pushed(t) as p, SmallRegistry() as mirror:
        t.run("mlpack", "sign", "s.mlc", "--oms")
        t.run("mlpack", "attest", "s.mlc", "--slsa", "--builder-id", "urn:test")
        own = p.registry.attach(REPOSITORY, p.pushed["digest"], b"of another tool")
        pushed = t.json("mlpack", "push", "s.mlc", p.reference, "--attach", "s.mlc.sig", "--attach", "s.mlc.provenance.sigstore.json")
        assert pushed["statements"] == [OMS, SLSA] and pushed["was_there"], pushed
        held = tagged(p.registry, pushed["digest"])
        assert own in held and len(held) == 3, "what the listing had is still there"
        again = t.json("mlpack", "push", "s.mlc", p.reference, "--attach", "s.mlc.sig", "--sign")
        assert len(tagged(p.registry, again["digest"])) == 4, "each stands there once"
        copied = t.json("mlpack", "copy", p.reference, f"{mirror.host}/{REPOSITORY}:2")
        assert copied["referrers"] == 4 and tagged(mirror, pushed["digest"]) == tagged(p.registry, pushed["digest"])
        bundle = mirror.blobs[REPOSITORY][digest_of((t.dir / "s.mlc.sig").read_bytes())]
        (t.dir / "back.sig").write_bytes(bundle)
        assert t.json("mlpack", "verify", "s.mlc", "--bundle", "back.sig")["statements"][0]["ok"]


def indexes_are_signed_as_a_whole(t):
    with Pushed(t) as p:
        reference = p.reference.replace(":2", ":both")
        both = t.json("mlpack", "push", "s.mlc", reference, "--shape", "both", "--sign")
        named = json.loads(payload_of(statements(p.registry, both["digest"])[COSIGN]))["subject"][0]["digest"]["sha256"]
        assert "sha256:" + named == both["digest"] and hashlib.sha256(p.registry.manifests[REPOSITORY]["both"][1]).hexdigest() == named


def statements_of_other_files_are_not_sent(t):
    with SmallRegistry() as registry:
        sample(t, "s.mlc")
        t.run("mlpack", "relabel", "s.mlc", "--metadata", "title=Other", "-o", "other.mlc")
        t.run("mlpack", "attest", "other.mlc", "--sbom")
        t.run("mlpack", "sign", "other.mlc", "--oms")
        (t.dir / "none.sig").write_text("{}")
        for bundle, code, words in (("other.mlc.cdx.sigstore.json", 12, "is about another file"), ("other.mlc.sig", 12, "is about another file"),
                                    ("none.sig", 4, "'mediaType' is missing"), ("missing.sig", 3, "missing.sig")):
            answer = t.json("mlpack", "push", "s.mlc", f"{registry.host}/{REPOSITORY}:1", "--attach", bundle, code=code)
            assert words in answer["message"], answer
        assert not registry.log, "nothing was sent"


if __name__ == "__main__":
    main([a_signed_push_is_signed_for_cosign, attached_statements_go_along_and_stay, indexes_are_signed_as_a_whole, statements_of_other_files_are_not_sent])
