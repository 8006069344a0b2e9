"""mlpack keygen, sign, verify and trust, as a user runs them."""
import os
import shlex
import shutil
import stat
import subprocess

from tool_test import Skipped, main

OWNER, OTHER = 12345, 12346  # users that nobody is
STRICT = '{"rules":[{"models":["*"],"level":"strict"}]}'


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


def a_container_in_parts_is_signed_into_one_file(t):
    body = sample(t).read_bytes()
    (t.dir / "parts").mkdir()
    for k, piece in enumerate((body[:5000], body[5000:])):
        (t.dir / "parts" / f"cat.mlc.00{k}").write_bytes(piece)
    for force in ((), ("--force",)):
        answer = t.json("mlpack", "sign", "parts", *force, code=2)
        assert "parts of a container" in answer["message"] and answer["help"].startswith("-o cat.mlc;"), answer
    assert sorted(f.name for f in (t.dir / "parts").iterdir()) == ["cat.mlc.000", "cat.mlc.001"]
    t.run("mlpack", "sign", "parts", "-o", "cat.mlc")
    t.run("mlpack", "verify", "cat.mlc")


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
    for force in ((), ("--force",)):
        answer = t.json("mlpack", "sign", path, "-o", ".", *force, code=2)
        assert ". is a folder" in answer["message"] and answer["help"] == "-o ./NAME.mlc", answer
    os.chmod(path, 0o640)
    (t.dir / "link.mlc").symlink_to("s.mlc")
    t.run("mlpack", "sign", "link.mlc")
    assert (t.dir / "link.mlc").is_symlink() and mode(path) == 0o640
    t.run("mlpack", "verify", path)
    (t.dir / "new.mlc").symlink_to("behind.mlc")  # where nothing is yet
    t.run("mlpack", "sign", path, "-o", "new.mlc")
    assert (t.dir / "new.mlc").is_symlink() and not (t.dir / "behind.mlc").is_symlink()
    (t.dir / "round.mlc").symlink_to("round.mlc")
    t.run("mlpack", "sign", path, "-o", "round.mlc", code=(2, 3))


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


def verify_says_whether_the_weights_were_read(t):
    path = sample(t)
    t.run("mlpack", "sign", path)
    assert "ok, the weights not read: --deep" in t.run("mlpack", "verify", path).stdout
    assert "ok, every leaf" in t.run("mlpack", "verify", path, "--deep").stdout


def trust_accepts_keys_and_the_named_signer_of_a_file(t):
    key_id = t.json("mlpack", "keygen", "-o", "k.pem")["key_id"]
    path = sample(t, key="k.pem")
    answer = t.json("mlpack", "verify", path, code=11)
    command = answer["help"]
    assert command == f"mlrun trust {path} --id {key_id}", answer
    for tool in ("mlpack", "mlrun"):
        answer = t.json(tool, "trust", path, code=2)
        assert answer["facts"] == [f"signed by {key_id}"] and answer["help"] == f"{tool} trust {path} --id ID", answer
        answer = t.json(tool, "trust", path, "--id", "0" * 64, code=11)
        assert answer["facts"] == [f"found {key_id}"], answer
        t.json(tool, "trust", path, "--id", key_id[:15], code=11)
    t.run("mlpack", "verify", path, code=11)
    t.run(*command.split())
    assert t.json("mlpack", "verify", path)["trust"] == "trusted"

    t.new_home()
    t.run("mlpack", "trust", "k.pub.pem", "--models", "other/*", "--models", "acme/x*")
    assert t.json("mlpack", "verify", path, code=11)["signatures"][0]["status"] == "out-of-scope"
    t.run("mlpack", "trust", "k.pub.pem", "--models", "acme/*")
    t.run("mlpack", "verify", path)
    for tool in ("mlpack", "mlrun"):
        t.json(tool, "trust", "k.pem", code=4)  # the private half
        t.json(tool, "trust", "absent.pem", code=3)
        t.json(tool, "trust", "absent.mlc", code=3)
        (t.dir / "cut.mlc").write_bytes(path.read_bytes()[:-100])
        t.json(tool, "trust", "cut.mlc", code=4)
    t.new_home()
    t.run("mlpack", "sign", path, "-o", "two.mlc")  # two signers: either may be named
    ids = {signature["key_id"] for signature in t.json("mlpack", "inspect", "two.mlc")["signatures"]}
    t.new_home()
    assert len(ids) == 2 and {fact.split()[-1] for fact in t.json("mlrun", "trust", "two.mlc", code=2)["facts"]} == ids
    for one in ids:
        t.new_home()
        assert t.json("mlrun", "trust", "two.mlc", "--id", one[:16], "--models", "acme/*")["key_id"] == one
        t.json("mlpack", "verify", "two.mlc")


def trusted_keys_are_listed_and_removed(t):
    key_id = t.json("mlpack", "keygen", "-o", "k.pem")["key_id"]
    path = sample(t, key="k.pem")
    for tool, other in (("mlrun", "mlpack"), ("mlpack", "mlrun")):
        assert "no trusted keys" in t.run(tool, "trust", "--list").stdout
        t.run(tool, "trust", "k.pub.pem", "--models", "acme/*", "--models", "b/c")
        found = t.json(other, "trust", "--list")["keys"]
        assert [(k["key_id"], k["models"]) for k in found] == [(key_id, ["acme/*", "b/c"])], found
        listed = t.run(tool, "trust", "--list").stdout
        assert key_id in listed and "acme/* b/c" in listed, listed
        t.run("mlpack", "verify", path)
        t.json(tool, "trust", "--remove", key_id[:15], code=2)
        t.json(tool, "trust", "--remove", "0" * 64, code=3)
        assert t.json(other, "trust", "--remove", key_id[:16])["removed"] == [found[0]["path"]]
        t.run("mlpack", "verify", path, code=11)
        # Without a command to do: one is missing; two are too many.
        t.json(tool, "trust", code=2)
        t.json(tool, "trust", "k.pub.pem", "--list", code=2)
        t.json(tool, "trust", "--list", "--remove", key_id, code=2)
    t.run("mlrun", "trust", "k.pub.pem")
    (t.home / "mlc/trust/damaged.pem").write_text("no key")
    assert "damaged.pem" in t.json("mlrun", "trust", "--list")["warnings"][0]
    os.chmod(t.home / "mlc/trust/damaged.pem", 0o666)
    t.json("mlrun", "trust", "--list", code=11)


def verify_says_what_it_has_not_read(t):
    path = sample(t)
    t.run("mlpack", "sign", path)
    assert "ok, the weights not read: --deep reads them" in t.run("mlpack", "verify", path).stdout
    assert "ok, every leaf" in t.run("mlpack", "verify", path, "--deep").stdout


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
    answer = t.json("mlpack", "verify", path, "--policy", policy, code=11)
    assert answer["message"] == f"{path} is signed by a only, 1 of the 2 signers that policy {policy} asks for", answer
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
    t.run("mlpack", "verify", path, "--expect-root", root[:-1] + ("0" if root[-1] != "0" else "1"), code=12)
    t.run("mlpack", "verify", path, "--expect-id", "acme/other", code=12)


def a_public_key_does_not_sign_and_the_private_one_is_named(t):
    path = sample(t)
    t.run("mlpack", "keygen", "-o", "k.pem")
    shutil.copy(t.dir / "k.pub.pem", t.dir / "public.pem")
    for name, help in (("k.pub.pem", "--key k.pem"), ("public.pem", "BEGIN PRIVATE KEY")):
        answer = t.json("mlpack", "sign", path, "--key", name, code=4)
        assert "this is a public key" in answer["message"] and help in answer["help"], answer
        assert "chmod" not in str(answer), answer


def hints_quote_the_names_of_files(t):
    key_id = t.json("mlpack", "keygen", "-o", "k.pem")["key_id"]
    odd = t.dir / "b$(touch done); it's.mlc"
    shutil.copy(sample(t, key="k.pem"), odd)
    command = t.json("mlpack", "verify", odd, code=11)["help"]
    assert shlex.split(command) == ["mlrun", "trust", str(odd), "--id", key_id], command
    answer = t.json("mlrun", "trust", odd, code=2)
    assert shlex.split(answer["help"])[2] == str(odd), answer
    shutil.copy(sample(t), t.dir / "-f.mlc")
    assert "help: mlpack sign ./-f.mlc" in t.run("mlpack", "verify", "--", "-f.mlc", code=10).stderr


def of_two_signatures_the_hint_is_about_the_key_that_is_known(t):
    t.run("mlpack", "keygen", "-o", "dev.pem")
    prod = t.json("mlpack", "keygen", "-o", "prod.pem")["key_id"]
    path = sample(t, key="dev.pem")
    t.run("mlpack", "sign", path, "--key", "prod.pem")
    t.run("mlpack", "trust", "prod.pub.pem", "--models", "other/*")
    answer = t.json("mlpack", "verify", path, code=11)
    assert prod[:16] in answer["message"] and f"--id {prod} --models 'other/*'" in answer["help"], answer


def hints_name_what_can_help(t):
    key_id = t.json("mlpack", "keygen", "-o", "k.pem")["key_id"]
    t.run("mlpack", "keygen", "-o", "other.pem")
    path = sample(t, key="k.pem")
    # Keys of the command line are the only ones that count.
    answer = t.json("mlpack", "verify", path, "--key", "other.pub.pem", code=11)
    assert "mlrun trust" not in answer["help"] and "--key" in answer["help"], answer
    # Under a strict rule those of the user's folder do not.
    (t.dir / "policy.json").write_text(STRICT)
    answer = t.json("mlpack", "verify", path, "--policy", "policy.json", code=11)
    assert "mlrun trust" not in answer["help"] and key_id in answer["help"] and "policy.json" in answer["help"], answer


def secret(t, name, text):
    (t.dir / name).write_text(text)
    (t.dir / name).chmod(0o600)


def openssl(t, *args):
    subprocess.run(["openssl", *map(str, args)], cwd=t.dir, check=True, capture_output=True)


def encrypted_keys_take_their_passphrase_from_a_file_or_a_descriptor(t):
    path = sample(t)
    secret(t, "pass", "correct horse\n")
    openssl(t, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-aes256", "-pass", "file:pass", "-out", "k.pem")
    openssl(t, "pkey", "-in", "k.pem", "-passin", "file:pass", "-pubout", "-out", "k.pub.pem")
    (t.dir / "k.pem").chmod(0o600)
    assert "--key-passphrase" in t.json("mlpack", "sign", path, "--key", "k.pem", code=4)["help"]
    t.run("mlpack", "sign", path, "--key", "k.pem", "--key-passphrase", "file:pass")
    t.run("mlpack", "verify", path, "--key", "k.pub.pem")
    secret(t, "wrong", "battery staple")
    assert "does not open" in t.json("mlpack", "sign", path, "--key", "k.pem", "--key-passphrase", "file:wrong", code=4)["message"]
    (t.dir / "pass").chmod(0o644)  # others could read it
    t.json("mlpack", "sign", path, "--key", "k.pem", "--key-passphrase", "file:pass", code=11)
    with open(t.dir / "pass") as descriptor:
        done = subprocess.run([t.bin / "mlpack", "sign", path, "--key", "k.pem", "--key-passphrase", f"fd:{descriptor.fileno()}"], cwd=t.dir, env=t.env,
                              pass_fds=[descriptor.fileno()], capture_output=True, text=True)
    assert done.returncode == 0, done
    for source, code in (("correct horse", 2), ("fd:77", 3), ("fd:x", 2), ("file:absent", 3)):
        t.json("mlpack", "sign", path, "--key", "k.pem", "--key-passphrase", source, code=code)
    secret(t, "empty", "\n")
    t.json("mlpack", "sign", path, "--key", "k.pem", "--key-passphrase", "file:empty", code=2)


def keys_that_are_elsewhere_sign_what_is_written_for_them(t):
    path = sample(t)
    for name, make, sign in (("p", ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"], ["dgst", "-sha384", "-sign", "p.pem", "-out", "p.sig", "in.bin"]),
                             ("e", ["-algorithm", "ed25519"], ["pkeyutl", "-sign", "-inkey", "e.pem", "-rawin", "-in", "in.bin", "-out", "e.sig"])):
        (t.dir / "in.bin").unlink(missing_ok=True)
        openssl(t, "genpkey", *make, "-out", f"{name}.pem")
        openssl(t, "pkey", "-in", f"{name}.pem", "-pubout", "-out", f"{name}.pub.pem")
        before = path.read_bytes()
        t.run("mlpack", "sign", path, "--emit-input", "in.bin")
        assert path.read_bytes() == before
        assert (t.dir / "in.bin").read_bytes().startswith(b"DSSEv1 28 application/vnd.in-toto+json ")
        t.json("mlpack", "sign", path, "--emit-input", "in.bin", code=2)  # is there already
        openssl(t, *sign)
        answer = t.json("mlpack", "sign", path, "--attach", f"{name}.sig", "--key", f"{name}.pub.pem")
        assert answer["key_id"].startswith(answer["key"]), answer
        t.run("mlpack", "verify", path, "--deep", "--key", f"{name}.pub.pem")
    assert answer["signatures"] == 2, answer
    # Of another key, over another statement, no signature at all, without a key.
    before = path.read_bytes()
    t.json("mlpack", "sign", path, "--attach", "e.sig", "--key", "p.pub.pem", code=12)
    t.json("mlpack", "sign", path, "--attach", "e.sig", "--key", "e.pub.pem", "--replace", "--not-after", "2999-01-01", code=12)
    (t.dir / "empty").write_bytes(b"")
    t.json("mlpack", "sign", path, "--attach", "empty", "--key", "e.pub.pem", code=12)
    (t.dir / "long").write_bytes(b"x" * 5000)
    t.json("mlpack", "sign", path, "--attach", "long", "--key", "e.pub.pem", code=4)
    t.json("mlpack", "sign", path, "--attach", "e.sig", code=2)
    t.json("mlpack", "sign", path, "--attach", "e.sig", "--key", "e.pem", code=4)
    t.json("mlpack", "sign", path, "--attach", "e.sig", "--key", "e.pub.pem", "--emit-input", "again.bin", code=2)
    assert path.read_bytes() == before


def the_end_of_a_signature_is_shown(t):
    t.run("mlpack", "keygen", "-o", "k.pem")
    path = sample(t)
    done = t.run("mlpack", "sign", path, "--key", "k.pem", "--not-after", "2999-11-20")
    assert "until 2999-11-20T23:59:59Z" in done.stdout and not done.stderr, done
    for command in ("verify", "inspect"):
        done = t.run("mlpack", command, path, code=11 if command == "verify" else 0)
        assert "until 2999-11-20T23:59:59Z\n" in done.stdout, done.stdout
    done = t.run("mlpack", "sign", path, "--key", "k.pem", "--replace", "--not-after", "2020-01-01")
    assert "which has passed" in done.stdout and done.stderr.startswith("warning: "), done


def a_key_trusted_for_other_models_says_how_to_widen_its_scope(t):
    key_id = t.json("mlpack", "keygen", "-o", "k.pem")["key_id"]
    path = sample(t, key="k.pem")
    first = t.json("mlpack", "trust", "k.pub.pem", "--models", "other/*")
    assert "models_before" not in first, first
    answer = t.json("mlpack", "verify", path, code=11)
    assert "not trusted for model \"acme/sample\"" in answer["message"], answer
    assert answer["help"] == f"mlrun trust {path} --id {key_id} --models 'other/*' --models acme/sample", answer
    t.run(*shlex.split(answer["help"]))
    t.run("mlpack", "verify", path)
    # What a key was trusted for until now is told.
    assert "before   other/* acme/sample" in t.run("mlrun", "trust", "k.pub.pem", "--models", "acme/*").stdout
    assert t.json("mlpack", "trust", "k.pub.pem")["models_before"] == ["acme/*"]
    assert "before" not in t.run("mlrun", "trust", "k.pub.pem").stdout
    # In a policy it is the policy that is changed.
    pem = (t.dir / "k.pub.pem").read_text().replace("\n", "\\n")
    (t.dir / "p.json").write_text(f'{{"keys":[{{"id":"k","pem":"{pem}","models":["b/*"]}}],"rules":[{{"models":["*"],"level":"strict"}}]}}')
    help = t.json("mlpack", "verify", path, "--policy", "p.json", code=11)["help"]
    assert help == 'add "acme/sample" to the models of key k in policy p.json', help


def ids_and_roots_are_taken_as_they_are_shown(t):
    key_id = t.json("mlpack", "keygen", "-o", "k.pem")["key_id"]
    path = sample(t, key="k.pem")
    t.run("mlrun", "trust", path, "--id", key_id.upper())
    root = t.json("mlpack", "verify", path)["root"]
    for text in (root, root.removeprefix("sha256:")):
        (t.dir / "p.json").write_text(policy_with(t, "k", f',"revoked_roots":["{text}"]'))
        assert "revoked" in t.json("mlpack", "verify", path, "--policy", "p.json", code=13)["message"]
    (t.dir / "p.json").write_text(policy_with(t, "k", f',"revoked_keys":["sha256:{key_id}"]'))
    t.json("mlpack", "verify", path, "--policy", "p.json", code=2)
    assert len(t.json("mlrun", "trust", "--remove", key_id.upper()[:20])["removed"]) == 1


def policy_with(t, key, more=""):
    pem = (t.dir / f"{key}.pub.pem").read_text().replace("\n", "\\n")
    return f'{{"keys":[{{"id":"{key}","pem":"{pem}"}}],"rules":[{{"models":["*"],"level":"strict"}}]{more}}}'


def home_of_somebody_else(t):
    """A signed file that OWNER, whose home t.home is, trusts."""
    if os.geteuid() != 0:
        raise Skipped("needs root to be other users")
    t.key_id = t.json("mlpack", "keygen", "-o", "k.pem")["key_id"]
    path = sample(t, key="k.pem")
    t.run("mlpack", "trust", "k.pub.pem")
    for folder in (t.dir, t.home, t.home / "mlc", t.home / "mlc/trust"):
        os.chmod(folder, 0o755)
    for folder, _, files in os.walk(t.home):
        for name in (folder, *(os.path.join(folder, file) for file in files)):
            os.chown(name, OWNER, OWNER)
    try:
        t.run("mlpack", "verify", path, user=OWNER)
    except (PermissionError, AssertionError) as why:
        raise Skipped(f"the programs are not readable by other users: {why}")
    return path


def what_is_there_and_cannot_be_read_is_an_error(t):
    path = home_of_somebody_else(t)
    policy = t.home / "mlc/trust.json"
    policy.write_text(STRICT)
    os.chown(policy, OWNER, OWNER)
    t.run("mlrun", "explain", path, user=OWNER, code=11)  # strict: the user's folder does not count
    for place, right, number in ((policy, 0o000, "E3305"), (t.home / "mlc", 0o600, "E3305"), (t.home, 0o600, "E3305"),
                                 (t.home / "mlc/trust", 0o300, "E3305"), (t.home / "mlc", 0o770, "E3304"),
                                 (policy, 0o666, "E3304"), (t.home / "mlc/trust", 0o777, "E3304")):
        before = mode(place)
        os.chmod(place, right)
        for program, command in (("mlrun", "explain"), ("mlpack", "verify")):
            done = t.run(program, command, path, user=OWNER, code=3 if number == "E3305" else 11)
            assert f"error[{number}]" in done.stderr and "help: chmod " in done.stderr, (place, done.stderr)
        os.chmod(place, before)
    policy.unlink()
    policy.symlink_to("/nonexistent/trust.json")
    assert "E3305" in t.run("mlrun", "explain", path, user=OWNER, code=3).stderr


def files_of_other_users_are_not_believed_not_even_by_root(t):
    path = home_of_somebody_else(t)
    for user in (OTHER, None):  # None: root with another user's home, as by sudo -E
        done = t.run("mlrun", "explain", path, user=user, code=11)
        assert "E3304" in done.stderr and f"belongs to user {OWNER}" in done.stderr and "chown" in done.stderr, done.stderr
    os.chown(t.dir / "k.pem", OWNER, OWNER)
    assert "E3303" in t.run("mlpack", "sign", path, "--key", "k.pem", code=11).stderr
    os.chown(t.dir / "k.pem", 0, 0)
    os.chmod(t.dir / "k.pem", 0o640)
    assert "chmod 600" in t.run("mlpack", "sign", path, "--key", "k.pem", code=11).stderr
    done = t.run("mlrun", "explain", path, user=OTHER, code=11)
    assert "help: set HOME to a folder of your own" in done.stderr, done.stderr
    # Root makes no files in a home that is not its own.
    shutil.rmtree(t.home / "mlc")
    assert "E3304" in t.run("mlpack", "keygen", code=11).stderr
    assert not (t.home / "mlc").exists()


def etc_with(t, policy):
    """From now on the programs see this as /etc/mlc/trust.json."""
    etc = t.dir / "etc"
    (etc / "mlc").mkdir(parents=True, exist_ok=True)
    (etc / "mlc/trust.json").write_text(policy)
    t.wrapper = ["unshare", "--mount", "sh", "-c", f'mount --bind "{etc}" /etc && exec "$@"', "sh"]
    probe = [*t.wrapper, "test", "-e", "/etc/mlc/trust.json"]
    if os.geteuid() != 0 or shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode:
        raise Skipped("needs root and mount namespaces")


def the_systems_policy_binds_if_it_says_so(t):
    for name in ("admin", "mine"):
        t.run("mlpack", "keygen", "-o", f"{name}.pem")
    good, mine, bare = sample(t, "good.mlc", "admin.pem"), sample(t, "mine.mlc", "mine.pem"), sample(t, "bare.mlc")
    (t.dir / "lax.json").write_text(policy_with(t, "mine"))
    ways = ([], ["--allow-unsigned"], ["--trust", "mine.pub.pem"], ["--policy", "lax.json"],
            ["--policy", "lax.json", "--trust", "mine.pub.pem", "--allow-unsigned"])
    etc_with(t, policy_with(t, "admin"))
    t.run("mlrun", "explain", good)
    t.run("mlrun", "explain", mine, code=11)
    for way in ways[1:]:
        t.run("mlrun", "explain", mine, *way)
    etc_with(t, policy_with(t, "admin", ',"binding":true'))
    t.run("mlrun", "explain", good)
    for way in ways:
        for path, code in ((mine, 11), (bare, 10)):
            done = t.run("mlrun", "explain", path, *way, code=code)
            assert "/etc/mlc/trust.json is binding" in done.stderr, done.stderr
    t.run("mlrun", "explain", good, "--policy", "lax.json", code=11)  # tighter counts
    t.run("mlpack", "verify", mine, code=11)
    assert t.json("mlpack", "inspect", mine)["trust"] == "refused"


def verify_hashes_native_code_that_may_not_run(t):
    t.run("mlpack", "keygen", "-o", "k.pem")
    path = sample(t, key="k.pem")
    etc_with(t, '{"binding":true,"rules":[{"models":["*"],"level":"permissive"}]}')
    assert t.json("mlpack", "verify", path, code=11)["problems"] == []
    data = bytearray(path.read_bytes())
    code = next(s for s in t.json("mlpack", "inspect", path)["segments"] if s["name"] == "code/x86-64-v2")
    data[code["offset"] + 100] ^= 1
    path.write_bytes(data)
    assert "code/x86-64-v2" in t.json("mlpack", "verify", path, code=12)["problems"][0]["message"]


def a_system_policy_that_only_root_may_read_is_an_error_for_others(t):
    path = home_of_somebody_else(t)
    etc_with(t, f'{{"rules":[{{"models":["*"],"level":"permissive"}}],"revoked_keys":["{t.key_id}"]}}')
    t.wrapper += ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]
    assert "E3202" in t.run("mlrun", "explain", path, code=13).stderr
    os.chmod(t.dir / "etc/mlc", 0o700)
    done = t.run("mlrun", "explain", path, code=3)
    assert "error[E3305]" in done.stderr and "help: sudo chmod a+x" in done.stderr, done.stderr


def older_versions_are_refused_unless_asked_for(t):
    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("mlpack", "trust", "k.pub.pem")
    new = sample(t, "new.mlc", "k.pem")
    t.run("sample_container", "old.mlc", "6")
    t.run("mlpack", "sign", "old.mlc", "--key", "k.pem")
    versions = t.state / "mlc/versions"
    t.run("mlrun", "explain", "old.mlc")
    assert versions.read_text().splitlines()[1].endswith(" 6 acme/sample") and mode(versions) == 0o600
    written = versions.stat().st_mtime_ns, versions.stat().st_ino
    t.run("mlrun", "explain", "old.mlc")
    assert (versions.stat().st_mtime_ns, versions.stat().st_ino) == written, "written only when the version rises"
    t.run("mlrun", "explain", new)
    done = t.run("mlrun", "explain", "old.mlc", code=13)
    assert "error[E3205]" in done.stderr and "version 7 was accepted" in done.stderr, done.stderr
    t.run("mlrun", "explain", "old.mlc", "--allow-unsigned", code=13)
    assert "version 7 was accepted" in t.run("mlrun", "explain", "old.mlc", "--allow-older").stderr
    t.run("mlrun", "explain", "old.mlc", code=13)
    # What nobody trusted signed, and what is not signed, is neither remembered nor refused.
    t.run("mlpack", "keygen", "-o", "stranger.pem")
    t.run("sample_container", "high.mlc", "99")
    t.run("mlpack", "sign", "high.mlc", "--key", "stranger.pem")
    before = versions.read_text()
    t.run("mlrun", "explain", "high.mlc")
    t.run("mlrun", "explain", "high.mlc", "--allow-unsigned")
    assert versions.read_text() == before
    versions.write_text(before[:-5])
    assert "error[E3306]" in t.run("mlrun", "explain", new, code=2).stderr
    versions.unlink()
    versions.mkdir()
    assert "error[E3305]" in t.run("mlrun", "explain", new, code=3).stderr


def a_state_folder_that_cannot_be_written_stops_only_who_must_remember(t):
    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("mlpack", "trust", "k.pub.pem")
    path = sample(t, key="k.pem")
    t.state.mkdir()
    (t.state / "mlc").write_text("a file where the folder would be")
    assert "warning: this version is not remembered" in t.run("mlrun", "explain", path).stderr
    (t.dir / "p.json").write_text(policy_with(t, "k").replace('"strict"', '"strict","require_marks":true'))
    t.run("mlrun", "explain", path, "--policy", "p.json", code=3)
    (t.state / "mlc").unlink()
    t.run("mlrun", "explain", path, "--policy", "p.json")
    t.run("mlpack", "verify", path, "--policy", "p.json", code=3)


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
      and callable(value) and value.__name__ not in ("sample", "flip", "mode", "policy_with", "home_of_somebody_else",
                                                     "etc_with", "secret", "openssl")])
