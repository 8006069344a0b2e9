"""mlpack keygen, sign, verify and trust, as a user runs them."""
import os
import shutil
import stat

from tool_test import main


def sample(t, name="s.mlc", key=None):
    t.run("sample_container", name)
    if key:
        t.run("mlpack", "sign", name, "--key", key)
    return t.dir / name


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def the_first_signature_makes_the_users_key_and_is_trusted(t):
    path = sample(t)
    body = path.read_bytes()
    assert t.json("mlpack", "verify", path, code=10)["trust"] == "unsigned"
    signed = t.json("mlpack", "sign", path)
    assert signed["key"].startswith("local:") and signed["signatures"] == 1
    assert path.read_bytes().startswith(body), "the body is untouched"
    key = t.home / "mlc/key.pem"
    assert mode(key) == 0o600 and b"PRIVATE" in key.read_bytes()
    verified = t.json("mlpack", "verify", path)
    assert verified["root"] == signed["root"] and verified["reason"] == "signed by " + signed["key"]
    assert t.json("mlpack", "keygen")["key_id"] == signed["key_id"], "the key is made once"
    assert sorted(p.name for p in t.dir.iterdir()) == ["home", "s.mlc"], "no temporary file is left"


def signing_again_with_one_key_replaces_and_with_another_adds(t):
    path = sample(t)
    first = t.json("mlpack", "sign", path)
    assert t.json("mlpack", "sign", path)["signatures"] == 1
    t.run("mlpack", "keygen", "-o", "prod.pem", "--type", "ed25519")
    both = t.json("mlpack", "sign", path, "--key", "prod.pem")
    assert both["signatures"] == 2 and both["root"] == first["root"]
    statuses = [s["status"] for s in t.json("mlpack", "verify", path)["signatures"]]
    assert statuses == ["ok", "unknown-key"], statuses
    assert t.json("mlpack", "sign", path, "--key", "prod.pem", "--replace")["signatures"] == 1
    t.json("mlpack", "verify", path, code=11)


def output_goes_elsewhere_and_overwrites_no_other_kind_of_file(t):
    path = sample(t)
    body = path.read_bytes()
    t.run("mlpack", "sign", path, "-o", "out.mlc")
    assert path.read_bytes() == body and (t.dir / "out.mlc").read_bytes()[: len(body)] == body
    t.run("mlpack", "verify", "out.mlc")
    (t.dir / "notes.txt").write_text("notes")
    t.run("mlpack", "sign", path, "-o", "notes.txt", code=2)
    assert (t.dir / "notes.txt").read_text() == "notes"
    t.run("mlpack", "sign", path, "-o", "notes.txt", "--force")
    t.run("mlpack", "verify", "notes.txt")
    t.run("mlpack", "sign", path, "-o", "no/such/folder.mlc", code=3)
    os.chmod(path, 0o640)
    (t.dir / "link.mlc").symlink_to("s.mlc")
    t.run("mlpack", "sign", "link.mlc")
    assert (t.dir / "link.mlc").is_symlink() and mode(path) == 0o640
    t.run("mlpack", "verify", path)


def keys_are_never_overwritten(t):
    made = t.json("mlpack", "keygen", "-o", "k.pem")
    before = (t.dir / "k.pem").read_bytes()
    assert mode(t.dir / "k.pem") == 0o600 and made["public"] == "k.pub.pem"
    t.json("mlpack", "keygen", "-o", "k.pem", code=2)
    (t.dir / "k.pub.pem").unlink()
    t.json("mlpack", "keygen", "-o", "k.pem", code=2)
    assert (t.dir / "k.pem").read_bytes() == before
    t.run("mlpack", "keygen", "-o", "x.pem", "--type", "rsa", code=2)
    t.run("mlpack", "keygen", "--type", "ed25519", code=2)
    assert not (t.dir / "x.pem").exists()


def trust_accepts_keys_and_the_named_signer_of_a_file(t):
    key_id = t.json("mlpack", "keygen", "-o", "k.pem")["key_id"]
    path = sample(t, key="k.pem")
    answer = t.json("mlpack", "verify", path, code=11)
    assert answer["help"] == f"mlpack trust {path} --id {key_id}", answer
    t.json("mlpack", "trust", path, code=2)
    t.json("mlpack", "trust", path, "--id", "0" * 64, code=11)
    t.json("mlpack", "trust", path, "--id", key_id[:15], code=11)
    t.run("mlpack", "verify", path, code=11)
    t.run(*answer["help"].split())
    assert t.json("mlpack", "verify", path)["trust"] == "trusted"

    t.new_home()
    t.run("mlpack", "trust", "k.pub.pem", "--models", "other/*", "--models", "acme/x*")
    assert t.json("mlpack", "verify", path, code=11)["signatures"][0]["status"] == "out-of-scope"
    t.run("mlpack", "trust", "k.pub.pem", "--models", "acme/*")
    t.run("mlpack", "verify", path)
    t.json("mlpack", "trust", "k.pem", code=4)  # the private half
    t.json("mlpack", "trust", "absent.pem", code=3)


def an_explicit_key_decides_alone(t):
    for name in ("a", "b"):
        t.run("mlpack", "keygen", "-o", f"{name}.pem")
    path = sample(t, key="a.pem")
    t.run("mlpack", "trust", "a.pub.pem")
    t.run("mlpack", "verify", path, "--key", "a.pub.pem")
    t.run("mlpack", "verify", path, "--key", "b.pub.pem", code=11)
    t.run("mlpack", "verify", path, "--key", "b.pub.pem", "--key", "a.pub.pem")
    t.run("mlpack", "verify", path, "--key", "absent.pem", code=3)


def damage_anywhere_is_found_and_named(t):
    good = sample(t)
    t.run("mlpack", "sign", good)
    size = good.stat().st_size
    bad = t.dir / "bad.mlc"
    padding = good.read_bytes().index(b"\0" * 256, 4096 + 256)
    places = {"magic": 0, "version": 8, "core": 28, "manifest": 8192 + 64, "padding": padding + 8,
              "signature": size - 60, "end": size - 1}
    for name, offset in places.items():
        shutil.copy(good, bad)
        flip(bad, offset)
        assert t.json("mlpack", "verify", bad, "--deep", code=(4, 12))["message"], name
    # The last leaf of the weights: only --deep reads it.
    shutil.copy(good, bad)
    flip(bad, 65536 + 2_300_000)
    t.run("mlpack", "verify", bad)
    deep = t.json("mlpack", "verify", bad, "--deep", code=12)
    assert "weights" in deep["problems"][0]["message"], deep
    t.json("mlpack", "sign", bad, code=12)
    for length in (0, 1, 63, 4095, 5000, size // 2, size - 1, size - 8, size - 300):
        bad.write_bytes(good.read_bytes()[:length])
        t.json("mlpack", "verify", bad, code=4)
    bad.write_bytes(good.read_bytes() + b"\0")
    t.json("mlpack", "verify", bad, code=4)


def validity_ends_and_can_be_renewed(t):
    path = sample(t)
    t.run("mlpack", "sign", path, "--not-after", "2001-01-01")
    assert t.json("mlpack", "verify", path, code=13)["code"] == "E3201"
    t.run("mlpack", "sign", path, "--not-after", "2998-01-01T00:00:00Z", code=2)  # another statement beside the old one
    t.run("mlpack", "sign", path, "--not-after", "2998-01-01T00:00:00Z", "--replace")
    t.run("mlpack", "verify", path)
    for date in ("tomorrow", "2027-02-30", "2027-13-01", "1970-01-01T00:00:00Z"):
        t.run("mlpack", "sign", path, "--not-after", date, code=2)


def policies_are_enforced(t):
    t.run("mlpack", "keygen", "-o", "a.pem")
    t.run("mlpack", "keygen", "-o", "b.pem")
    pem = {k: (t.dir / f"{k}.pub.pem").read_text().replace("\n", "\\n") for k in "ab"}
    keys = ",".join(f'{{"id":"{k}","pem":"{pem[k]}"}}' for k in "ab")
    policy = t.dir / "p.json"
    policy.write_text(f'{{"keys":[{keys}],"rules":[{{"models":["acme/*"],"level":"strict","threshold":2}}]}}')
    path = sample(t)
    t.json("mlpack", "verify", path, "--policy", policy, code=10)
    t.run("mlpack", "sign", path, "--key", "a.pem")
    t.json("mlpack", "verify", path, "--policy", policy, code=11)
    t.run("mlpack", "sign", path, "--key", "b.pem")
    t.run("mlpack", "verify", path, "--policy", policy)
    policy.write_text(policy.read_text().replace('"threshold"', '"treshold"'))
    assert "treshold" in t.json("mlpack", "verify", path, "--policy", policy, code=2)["message"]


def expectations_are_compared(t):
    path = sample(t)
    root = t.json("mlpack", "sign", path)["root"]
    t.run("mlpack", "verify", path, "--expect-root", root, "--expect-id", "acme/sample")
    t.run("mlpack", "verify", path, "--expect-root", root.removeprefix("sha256:"))
    t.run("mlpack", "verify", path, "--expect-root", "sha256:" + "0" * 64, code=12)
    t.run("mlpack", "verify", path, "--expect-id", "acme/other", code=1)


def usage_and_files_that_are_no_containers(t):
    t.run("mlpack", code=2)
    t.run("mlpack", "verify", code=2)
    t.run("mlpack", "verify", "x", "--no-such-flag", code=2)
    t.run("mlpack", "verify", "absent.mlc", code=3)
    t.run("mlpack", "verify", t.dir, code=3)
    (t.dir / "text.mlc").write_text("hello")
    for command in ("verify", "sign", "trust"):
        t.json("mlpack", command, "text.mlc", code=4)
    for command in ("keygen", "sign", "verify", "trust"):
        text = t.run("mlpack", command, "--help").stdout
        assert text.index("Examples:") < text.index("Options:"), "examples come first"
        assert max(map(len, text.splitlines())) <= 80, text


main([value for value in list(globals().values()) if getattr(value, "__module__", "") == "__main__"
      and callable(value) and value.__name__ not in ("sample", "flip", "mode")])
