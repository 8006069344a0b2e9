"""mlpack sign --oms, attest and verify --bundle, as a user runs them; what OpenSSL and the package model-signing say of it."""
import base64
import hashlib
import json
import pathlib
import subprocess

from tool_test import Skipped, main

OMS = "https://model_signing/signature/v1.0"


def signed(t, name="s.mlc"):
    """A container signed by k.pem, which is trusted by name only."""
    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("sample_container", name)
    t.run("mlpack", "sign", name, "--key", "k.pem")
    return t.dir / name


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pae(payload):
    return b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload


def openssl(t, *args):
    subprocess.run(["openssl", "dgst", "-sha256", *args], cwd=t.dir, check=True, capture_output=True)


def opened(t, path):
    """The statement of a bundle, after OpenSSL has checked its signature."""
    bundle = json.loads((t.dir / path).read_text())
    envelope = bundle["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    (t.dir / "signed.bytes").write_bytes(pae(payload))
    (t.dir / "value.bytes").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    openssl(t, "-verify", "k.pub.pem", "-signature", "value.bytes", "signed.bytes")
    assert bundle["verificationMaterial"]["publicKey"]["hint"] == sha256(t.dir / "k.pub.pem"), bundle
    return json.loads(payload)


def bundle_by_openssl(t, statement, path="theirs.sig", key="k.pem"):
    """As model-signing writes them: the payload printed with line ends, an envelope by the key `key`."""
    payload = json.dumps(statement, indent=2).encode()
    (t.dir / "signed.bytes").write_bytes(pae(payload))
    openssl(t, "-sign", key, "-out", "value.bytes", "signed.bytes")
    signature = {"sig": base64.b64encode((t.dir / "value.bytes").read_bytes()).decode(), "keyid": ""}
    envelope = {"payload": base64.b64encode(payload).decode(), "payloadType": "application/vnd.in-toto+json", "signatures": [signature]}
    material = {"publicKey": {"hint": sha256(t.dir / key.replace(".pem", ".pub.pem"))}, "tlogEntries": []}
    (t.dir / path).write_text(json.dumps({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": material, "dsseEnvelope": envelope}))
    return path


def oms(files):
    """The statement of a folder with these digests by name, or of one file called '.'."""
    whole = hashlib.sha256(b"".join(bytes.fromhex(digest) for digest in files.values())).hexdigest()
    how = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": [".git"]}
    resources = [{"name": name, "algorithm": "sha256", "digest": digest} for name, digest in files.items()]
    return {"_type": "https://in-toto.io/Statement/v1", "subject": [{"name": "m", "digest": {"sha256": whole}}],
            "predicateType": OMS, "predicate": {"serialization": how, "resources": resources}}


def verify(t, path, *bundles, code=0):
    given = [word for bundle in bundles for word in ("--bundle", bundle)]
    return t.json("mlpack", "verify", path, "--key", "k.pub.pem", *given, code=code)


def a_model_signature_is_what_openssl_and_we_verify(t):
    path = signed(t)
    before = path.read_bytes()
    answer = t.json("mlpack", "sign", path, "--oms", "--key", "k.pem")
    assert answer["file"] == str(path) + ".sig" and path.read_bytes() == before, answer
    statement = opened(t, "s.mlc.sig")
    assert statement == {**oms({".": sha256(path)}), "subject": [{"name": "s.mlc", "digest": statement["subject"][0]["digest"]}],
                         "predicate": {**statement["predicate"], "resources": [{"name": ".", "algorithm": "sha256", "digest": sha256(path)}]}}, statement
    assert statement["subject"][0]["digest"]["sha256"] == hashlib.sha256(bytes.fromhex(sha256(path))).hexdigest()
    found = verify(t, path, "s.mlc.sig")["statements"]
    assert [(s["ok"], s["predicate"], s["key"]) for s in found] == [(True, OMS, "k.pub.pem")], found
    refused = t.json("mlpack", "sign", path, "--oms", "--key", "k.pem", code=2, stderr="")
    assert "exists already" in refused["message"], refused
    t.run("mlpack", "sign", path, "--oms", "--key", "k.pem", "-f")
    # A changed byte: of the file, and of the signature's payload.
    t.run("mlpack", "sign", path)
    other = verify(t, path, "s.mlc.sig", code=12)
    assert other["code"] == "E3102" and other["message"] == "s.mlc.sig is about another file than s.mlc", other
    path.write_bytes(before)
    text = (t.dir / "s.mlc.sig").read_text()
    at = text.index('"payload":"') + 200
    (t.dir / "s.mlc.sig").write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1:])
    wrong = verify(t, path, "s.mlc.sig", code=12)
    assert wrong["code"] == "E3101", wrong


def signatures_of_others_count_for_a_file_and_for_its_folder(t):
    path = signed(t)
    digest = sha256(path)
    verify(t, path, bundle_by_openssl(t, oms({".": digest})), bundle_by_openssl(t, oms({"README": "ab" * 32, "s.mlc": digest}), "folder.sig"))
    cases = [
        (oms({".": "ab" * 32}), 12, "is about another file than s.mlc"),
        (oms({"README": "ab" * 32, "t.mlc": digest}), 12, "is about a model that has no file s.mlc"),
        (oms({".": digest, "x": digest}), 12, "is about a model that has no file s.mlc"),
        ({**oms({".": digest}), "subject": [{"name": "m", "digest": {"sha256": "00" * 32}}]}, 12, "the digest of the model is not that of its resources"),
        ({**oms({".": digest}), "predicate": {"resources": []}}, 4, "a model signature without 'serialization' and 'resources'"),
        ({**oms({".": digest}), "_type": "x"}, 4, "'_type' is \"x\""),
        ({**oms({".": digest}), "predicateType": "urn:other"}, 12, "is about another file"),
    ]
    shards = oms({".": digest})
    shards["predicate"]["serialization"]["method"] = "shards"
    cases.append((shards, 4, "whole files by sha256 expected"))
    for statement, code, words in cases:
        answer = verify(t, path, bundle_by_openssl(t, statement), code=code)
        assert words in answer["message"], (words, answer["message"])
    t.run("mlpack", "keygen", "-o", "other.pem")
    stranger = verify(t, path, bundle_by_openssl(t, oms({".": digest}), key="other.pem"), code=11)
    assert stranger["message"] == "theirs.sig is signed by none of 1 key that are trusted here", stranger
    assert verify(t, path, "missing.sig", code=3)["message"].startswith("missing.sig: cannot open"), "named, not passed over"
    (t.dir / "empty.sig").write_text("")
    verify(t, path, "empty.sig", code=4)


def provenance_says_what_was_built_from_what(t):
    path = signed(t)
    t.run("mlpack", "attest", path, "--slsa", "--builder-id", "https://ci.example.org/models", "--key", "k.pem")
    statement = opened(t, "s.mlc.provenance.sigstore.json")
    inside = t.json("mlpack", "inspect", path)
    assert statement["subject"] == [{"name": "s.mlc", "digest": {"sha256": sha256(path), "mlc-sha256-1m-v1": inside["root"].removeprefix("sha256:")}}], statement
    definition, details = statement["predicate"]["buildDefinition"], statement["predicate"]["runDetails"]
    assert definition["buildType"] == "urn:mlc:build/v1" and details["builder"]["id"] == "https://ci.example.org/models", statement
    assert definition["externalParameters"]["targets"] == [v["target"] for v in inside["variants"]], definition
    source = definition["resolvedDependencies"][0]
    assert source == {"name": inside["model"]["source"]["name"], "digest": {"sha256": inside["model"]["source"]["digest"].removeprefix("sha256:")}}, source
    # The root is what is spoken of: one more signature changes the file, not what it is.
    t.run("mlpack", "sign", path)
    found = verify(t, path, "s.mlc.provenance.sigstore.json")["statements"]
    assert found[0]["ok"] and found[0]["predicate"] == "https://slsa.dev/provenance/v1", found
    t.run("mlpack", "relabel", path, "--metadata", "title=Cats", "-o", "cats.mlc", "--key", "k.pem")
    assert verify(t, t.dir / "cats.mlc", "s.mlc.provenance.sigstore.json", code=12)["code"] == "E3102", "another root"
    # Without what it needs nothing is written.
    for words, message in [(["--slsa"], "--builder-id with a URI expected"), (["--sbom", "--builder-id", "a:b"], "--builder-id belongs to --slsa"),
                           ([], "one of --slsa and --sbom"), (["--slsa", "--sbom"], "one of --slsa and --sbom")]:
        refused = t.json("mlpack", "attest", path, *words, "-o", "none.json", code=2)
        assert message in refused["message"] and not (t.dir / "none.json").exists(), refused


def a_bill_of_materials_lists_what_is_inside(t):
    path = signed(t)
    t.run("mlpack", "attest", path, "--sbom", "--bare", "-o", "bom.json")
    bill = json.loads((t.dir / "bom.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1), bill
    model = bill["metadata"]["component"]
    assert model["type"] == "machine-learning-model" and model["hashes"] == [{"alg": "SHA-256", "content": sha256(path)}], model
    # A module's digest is that of the file that `extract` writes.
    t.run("mlpack", "extract", path, "--what", "modules", "-o", "out")
    files = {hashlib.sha256(f.read_bytes()).hexdigest() for f in (t.dir / "out").rglob("*") if f.is_file()}
    modules = [c for c in bill["components"] if c["bom-ref"].startswith("module/")]
    assert modules and all(m["hashes"][0]["content"] in files for m in modules), (modules, files)
    t.run("mlpack", "attest", path, "--sbom", "--key", "k.pem")
    assert opened(t, "s.mlc.cdx.sigstore.json")["predicate"] == bill
    t.run("mlpack", "attest", path, "--sbom", "--bare", "-o", "again.json")
    assert (t.dir / "again.json").read_bytes() == (t.dir / "bom.json").read_bytes(), "no times, no names of machines"
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
    except ImportError:
        raise Skipped("cyclonedx-python-lib is not installed")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str((t.dir / "bom.json").read_text()) is None


def the_package_model_signing_and_we_verify_each_other(t):
    try:
        from model_signing import signing, verifying
    except ImportError:
        raise Skipped("model-signing is not installed")
    path = signed(t)
    t.run("mlpack", "sign", path, "--oms", "--key", "k.pem")
    verifying.Config().use_elliptic_key_verifier(public_key=t.dir / "k.pub.pem").verify(path, t.dir / "s.mlc.sig")
    signing.Config().use_elliptic_key_signer(private_key=t.dir / "k.pem").sign(path, t.dir / "theirs.sig")
    verify(t, path, "theirs.sig")
    flipped = bytearray(path.read_bytes())
    flipped[-1] ^= 1
    path.write_bytes(flipped)
    try:
        verifying.Config().use_elliptic_key_verifier(public_key=t.dir / "k.pub.pem").verify(path, t.dir / "s.mlc.sig")
    except ValueError:
        return
    raise AssertionError("a changed file passes")


if __name__ == "__main__":
    main([a_model_signature_is_what_openssl_and_we_verify, signatures_of_others_count_for_a_file_and_for_its_folder,
          provenance_says_what_was_built_from_what, a_bill_of_materials_lists_what_is_inside, the_package_model_signing_and_we_verify_each_other])
