"""mlpack policy and trust --install, as administrators and machines use them."""
import base64
import json
import os
import stat
import subprocess

from tool_test import main

FAR = "2999-01-01T00:00:00Z"


def keys(t, *names):
    for name in names:
        t.run("mlpack", "keygen", "-o", f"{name}.pem")


def policy(t, name, version, administrators, threshold=1, expires=FAR, **more):
    entries = [{"id": key, "pem": (t.dir / f"{key}.pub.pem").read_text()} for key in administrators]
    whole = {"version": version, "expires": expires, "administrators": {"threshold": threshold, "keys": entries}, **more}
    (t.dir / name).write_text(json.dumps(whole))


def bundle(t, version, administrators, signers, threshold=1, **more):
    policy(t, f"v{version}.json", version, administrators, threshold, **more)
    name = f"v{version}.bundle"
    (t.dir / name).unlink(missing_ok=True)
    t.run("mlpack", "policy", "sign", f"v{version}.json", "-o", name, *(word for key in signers for word in ("--key", f"{key}.pem")))
    return name


def install(t, *bundles, code=0, root=None, tool="mlrun"):
    words = [word for name in bundles for word in ("--install", name)]
    if root:
        words += ["--trust-first", f"{root}.pub.pem"]
    return t.json(tool, "trust", *words, "--policy", t.dir / "etc/trust.json", code=code)


def installed(t):
    return (t.dir / "etc/trust.json").read_text()


def a_machine_follows_its_administrators(t):
    keys(t, "a", "b", "c")
    first = install(t, bundle(t, 1, "a", "a"), root="a")
    assert first["installed"] and first["version"] == "1" and first["signers"] == ["a"] and "version_before" not in first, first
    assert installed(t) == (t.dir / "v1.json").read_text(), "byte for byte"
    assert not install(t, "v1.bundle")["installed"], "it is there already"
    second = install(t, bundle(t, 2, "ab", "ab", 2), tool="mlpack")
    assert second["version_before"] == "1" and second["signers"] == ["a", "b"], second
    third = install(t, bundle(t, 3, "bc", "abc", 2))
    assert third["signers"] == ["b", "c"], third


def what_is_refused_says_why_and_changes_nothing(t):
    keys(t, "a", "b")
    install(t, bundle(t, 3, "a", "a"), root="a")
    before = installed(t)
    line = (t.dir / bundle(t, 4, "a", "a")).read_text()
    signature = json.loads(line)["signatures"][0]["sig"]
    changed = bytearray(base64.b64decode(signature))
    changed[-1] ^= 1
    (t.dir / "changed.bundle").write_text(line.replace(signature, base64.b64encode(bytes(changed)).decode()))
    (t.dir / "cut.bundle").write_text(line[:-9])
    cases = [("roll-back", lambda: bundle(t, 2, "a", "a"), 13, 3405, "is version 3"), ("gap", lambda: bundle(t, 5, "a", "a"), 3, 3406, "cannot follow version 3"),
             ("wrong key", lambda: bundle(t, 4, "b", "b"), 11, 3402, "of the administrators of version 3"), ("changed", lambda: "changed.bundle", 12, 3403, "was changed"),
             ("cut off", lambda: "cut.bundle", 4, 3401, "cut off"), ("expired", lambda: bundle(t, 4, "a", "a", expires="2020-01-01T00:00:00Z"), 13, 3404, "has passed"),
             ("too few of its own", lambda: bundle(t, 4, "ab", "a", 2), 11, 3402, "of its own administrators"), ("missing", lambda: "none.bundle", 3, 0, "none.bundle")]
    for what, made, code, number, words in cases:
        answer = install(t, made(), code=code)
        assert answer.get("code", "E0") == f"E{number}" and words in answer["message"], (what, answer)
        assert any("unchanged" in fact for fact in answer["facts"]), (what, answer)
        assert installed(t) == before, what
    assert install(t, bundle(t, 4, "a", "a"), root="b", code=2)["code"] == "E3407"
    (t.dir / "etc/trust.json").unlink()
    assert install(t, "v4.bundle", code=2)["code"] == "E3407", "no root"
    assert install(t, "v2.bundle", root="a", code=13)["code"] == "E3405", "version 3 was here"
    assert install(t, "v4.bundle", root="a")["version"] == "4"


def a_chain_brings_a_machine_that_was_off_to_the_present(t):
    keys(t, "a", "b", "c")
    install(t, bundle(t, 1, "a", "a"), root="a")
    bundle(t, 2, "b", "ab", expires="2020-01-01T00:00:00Z")
    bundle(t, 3, "c", "bc")
    install(t, "v3.bundle", code=3)
    (t.dir / "chain").write_text("".join((t.dir / f"v{n}.bundle").read_text() for n in (1, 2, 3)))
    t.run("mlpack", "policy", "verify", "chain")
    assert install(t, "v2.bundle", "v3.bundle")["version"] == "3"
    assert not install(t, "chain")["installed"]


def administrators_sign_one_after_the_other(t):
    keys(t, "a", "b")
    policy(t, "p.json", 1, "ab", 2)
    first = t.json("mlpack", "policy", "sign", "p.json", "--key", "a.pem", "-o", "p.bundle")
    assert first["signers"] == ["a"] and first["missing"] == 1, first
    assert t.json("mlpack", "policy", "verify", "p.bundle", code=11)["code"] == "E3402"
    second = t.json("mlpack", "policy", "sign", "p.bundle", "--key", "b.pem")
    assert second["signers"] == ["a", "b"] and second["missing"] == 0 and second["file"] == "p.bundle", second
    assert t.json("mlpack", "policy", "verify", "p.bundle")["bundles"][0]["needed"] == 2
    t.json("mlpack", "policy", "verify", "p.bundle", "--trust-first", "a.pub.pem")
    # The bytes are those of DSSE: OpenSSL agrees.
    envelope = json.loads((t.dir / "p.bundle").read_text())
    payload = base64.b64decode(envelope["payload"])
    assert payload == (t.dir / "p.json").read_bytes()
    (t.dir / "bytes").write_bytes(b"DSSEv1 17 urn:mlc:policy/v1 %d " % len(payload) + payload)
    (t.dir / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    subprocess.run(["openssl", "dgst", "-sha256", "-verify", "a.pub.pem", "-signature", "sig", "bytes"], cwd=t.dir, check=True, capture_output=True)


def what_cannot_be_signed_is_refused(t):
    keys(t, "a")
    policy(t, "p.json", 1, "a")
    assert "-o" in t.json("mlpack", "policy", "sign", "p.json", "--key", "a.pem", code=2)["help"]
    (t.dir / "plain.json").write_text('{"rules":[]}')
    assert t.json("mlpack", "policy", "sign", "plain.json", "--key", "a.pem", "-o", "b", code=2)["code"] == "E3302"
    t.run("mlpack", "policy", "sign", "p.json", "--key", "a.pem", "-o", "b")
    t.run("mlpack", "policy", "sign", "p.json", "--key", "a.pem", "-o", "b", code=2)  # is there
    t.run("mlpack", "policy", "sign", "p.json", "--key", "a.pem", "-o", "b", "--force")
    t.run("mlpack", "policy", "sign", "p.json", "--after", "b", "-o", "c", code=2)
    t.run("mlpack", "policy", "verify", "b", "--key", "a.pem", code=2)
    t.run("mlpack", "policy", "install", "b", code=2)
    t.run("mlrun", "trust", "--policy", "x.json", "--list", code=2)
    t.run("mlrun", "trust", "--install", "b", "--list", code=2)


def the_installed_policy_decides_what_runs_and_all_may_read_it(t):
    keys(t, "a", "prod", "other")
    rules = [{"models": ["*"], "level": "strict"}]
    models = [{"id": "prod", "pem": (t.dir / "prod.pub.pem").read_text()}]
    old = os.umask(0o077)
    try:
        install(t, bundle(t, 1, "a", "a", keys=models, rules=rules), root="a")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(t.dir / "etc/trust.json").st_mode) == 0o644
    assert stat.S_IMODE(os.stat(t.dir / "etc").st_mode) == 0o755
    t.run("sample_container", "s.mlc")
    t.run("mlpack", "sign", "s.mlc", "--key", "other.pem")
    t.run("mlpack", "verify", "s.mlc", "--policy", "etc/trust.json", code=11)
    t.run("mlpack", "sign", "s.mlc", "--key", "prod.pem")
    t.run("mlpack", "verify", "s.mlc", "--policy", "etc/trust.json")
    t.run("mlpack", "sign", "s.mlc", "--key", "a.pem", "--replace")
    t.run("mlpack", "verify", "s.mlc", "--policy", "etc/trust.json", code=11)  # administrators sign policies, not models


main([a_machine_follows_its_administrators, what_is_refused_says_why_and_changes_nothing, a_chain_brings_a_machine_that_was_off_to_the_present,
      administrators_sign_one_after_the_other, what_cannot_be_signed_is_refused, the_installed_policy_decides_what_runs_and_all_may_read_it])
