"""mlpack push, pull and resolve against a registry that does right, and against one that does not: what is not right never becomes a file."""
import json
import os
import shutil
import subprocess

from pushed import HEAD, REPOSITORY, STRICT, Pushed, names, once, sample
from json_test import Fields
from small_registry import SmallRegistry, digest_of
from tool_test import main


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
        fields.look(t.json("mlpack", "push", "s.mlc", p.reference, "--sign"))
        fields.look(t.json("mlpack", "copy", p.reference, "oci:copied"))
        sample(t, "foreign.mlc", "foreign")
        t.json("mlpack", "push", "foreign.mlc", p.reference)
        fields.look(t.json("mlpack", "pull", p.reference, "-o", "o.mlc", "--keep-host"))
        fields.look(t.json("mlpack", "export", "s.mlc", "--as", "oci-layout", "-o", "layout"))
        fields.look(t.json("mlpack", "export", "s.mlc", "--as", "k8s", "-o", "objects"))
    assert not {name: fields.unseen(name) for name in ("push", "resolve", "copy") if fields.unseen(name)}
    assert fields.unseen("export") <= {"pipeline"}, "engines_test.py serves one"
    assert fields.unseen("pull") <= {"warnings[]", "expires", "bundles", "signatures"}, fields.unseen("pull")  # policies_test.py has the last three


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

        def name_of(request):
            return request.path.rsplit("/", 1)[1]

        def loses(request):  # what arrived is kept, the answer is lost
            if request.verb != "PATCH" or not request.headers["Content-Range"].startswith("524288-"):
                return False
            registry.uploads[name_of(request)] += request.body[:1000]
            request.close_connection = True
            return True
        registry.faults.append(once(loses))
        registry.faults.append(once(lambda request: request.verb == "PATCH" and len(registry.uploads[name_of(request)]) > 1_500_000 and request.answer(503)))
        t.json("mlpack", "push", "s.mlc", reference, "--request-mib", "1")
        assert registry.blobs[REPOSITORY][digest_of(data)] == data
        patches = registry.requests("PATCH")
        assert max(entry["bytes"] for entry in patches) == 1 << 19 and len(patches) >= 6, patches
        assert registry.requests("GET", "/uploads/u"), "asked how much is there"


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
        p.registry.faults.append(once(lambda request: (request.headers.get("Range") or "").startswith("bytes=65536-") and p.answer_wrong(request)))
        assert p.pull()["requests"] == 4
        p.registry.faults.clear()
        p.fails(p.answer_wrong, 12, "also when it was asked for once more")


def wrong_bytes_in_what_is_signed_are_refused(t):
    with Pushed(t) as p:
        for offset in (0, 70, 9000, len(p.data) - 100, len(p.data) - 800):
            p.registry.faults.append(lambda request, offset=offset: p.answer_wrong(request, offset))
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
        nothing = {"Content-Range": f"bytes 0-{HEAD - 1}/{len(p.data)}"}
        p.registry.faults[0] = lambda request: p.is_blob(request) and request.answer(206, p.data, nothing, send=b"")
        answer = p.pull(code=30)
        assert "again and again" in answer["message"], answer


def a_registry_without_ranges_gives_the_whole_file(t):
    with Pushed(t) as p:
        p.registry.gives_ranges = False
        answer = p.pull()
        assert not answer["ranges"] and "no parts to be had" in t.run("mlpack", "pull", p.reference, "-o", "o.mlc").stdout
        (t.dir / "o.mlc").unlink()
        is_whole = lambda request: p.is_blob(request) and not request.headers.get("Range")
        p.registry.faults.append(once(lambda request: is_whole(request) and request.answer(200, p.data, send=p.data[:99_999])))
        p.registry.faults.append(once(lambda request: is_whole(request) and request.answer(200, b"x" + p.data[1:])))
        p.pull()
        p.registry.faults.clear()
        p.fails(lambda request: p.is_blob(request) and request.answer(200, b"x" + p.data[1:]), 12, "once more")
        # Ranges that end on the way.
        p.registry.gives_ranges = True
        is_late = lambda request: p.is_blob(request) and (request.headers.get("Range") or "").startswith("bytes=65536-")
        p.registry.faults.append(lambda request: is_late(request) and request.answer(200, p.data))
        assert not p.pull()["ranges"]


def the_policy_also_decides_over_whole_files(t):
    with Pushed(t, sign=False) as p:
        (t.dir / "strict.json").write_text(STRICT)
        p.registry.gives_ranges = False
        p.pull("--policy", "strict.json", code=10)


def lengths_that_lie_are_refused(t):
    with Pushed(t) as p:
        size = len(p.data)
        for data, said, sentence in ((p.data[1:HEAD + 1], f"bytes 1-{HEAD}/{size}", "other bytes"),
                                     (p.data[:HEAD], f"bytes 0-{HEAD - 1}/{size + 1}", "other bytes"),
                                     (p.data[:HEAD], "", "other bytes"), (p.data[:HEAD + 10], f"bytes 0-{HEAD - 1}/{size}", "more than")):
            p.fails(lambda request: p.is_blob(request) and request.answer(206, data, {"Content-Range": said}), 30, sentence)
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


def files_of_strangers_come_whole_and_are_read_without_privileges(t):
    with Pushed(t, sign=False) as p:
        assert p.pull()["id"] == "acme/sample"
        p.registry.faults.append(once(lambda request: not (request.headers.get("Range") or "").startswith("bytes=0-") and p.answer_wrong(request)))
        p.pull()
        p.registry.faults.clear()
        p.fails(lambda request: not (request.headers.get("Range") or "").startswith("bytes=0-") and p.answer_wrong(request), 12, "once more")
        manifest = json.loads(p.registry.manifests[REPOSITORY]["2"][1])
        del manifest["annotations"]
        for offset in (8300, 8400, 8600, 9000, 40_000, 66_000, 1_500_000, len(p.data) - 40):  # the digest of the blob is right, the container is not
            data = bytearray(p.data)
            data[offset] ^= 0xff
            manifest["layers"][0].update(p.registry.put_blob(REPOSITORY, bytes(data)))
            p.registry.put_manifest(REPOSITORY, "damaged", manifest)
            for gives_ranges in (True, False):
                p.registry.gives_ranges = gives_ranges
                answer = p.pull(reference=p.reference.replace(":2", ":damaged"), code=(4, 12))
                assert answer["message"].startswith(f"{p.registry.host}/{REPOSITORY}:damaged: "), answer
        p.registry.gives_ranges = True
        for data in (p.data[:100_000], p.data + b"x", p.data[:-1], b"x" * 200_000, b"", b"\x89MLC\r\n\x1a\n"):
            manifest["layers"][0].update(p.registry.put_blob(REPOSITORY, data))
            p.registry.put_manifest(REPOSITORY, "none", manifest)
            p.pull(reference=p.reference.replace(":2", ":none"), code=4)


def parts_are_taken_only_where_somebody_vouches_for_the_whole(t):
    with Pushed(t, sign=False) as p:
        sample(t, "old.mlc", 6, sign=False)
        answer = p.pull("--from", "old.mlc", code=10)
        assert "@sha256:" in answer["help"], answer
        pinned = f"{p.registry.host}/{REPOSITORY}@{p.pushed['digest']}"
        assert p.pull("--from", "old.mlc", reference=pinned)["bytes_reused"] > 2_000_000
        p.pull("--from", "nothing.mlc", reference=pinned, code=3)


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


main([
    what_is_pushed_comes_back_bit_for_bit, the_artifact_is_a_modelpack, resolve_fetches_the_manifest_only, the_tag_is_written_last,
    the_policy_decides_before_weights_are_fetched, fields_are_those_of_the_page, without_the_program_mlpack_says_so,
    large_files_go_in_pieces_and_go_on_after_a_cut, an_upload_that_never_gets_further_ends, a_damaged_file_is_not_pushed,
    wrong_bytes_are_asked_for_once_more, wrong_bytes_in_what_is_signed_are_refused, another_file_under_the_same_manifest_is_refused,
    cut_transfers_go_on_where_they_ended, a_registry_without_ranges_gives_the_whole_file, the_policy_also_decides_over_whole_files,
    lengths_that_lie_are_refused, manifests_that_are_none_are_refused, manifests_are_small_and_have_their_digest, a_busy_registry_is_asked_again,
    what_stands_at_the_output_is_no_accident, a_signal_leaves_nothing, an_update_moves_what_is_new_only,
    files_of_strangers_come_whole_and_are_read_without_privileges, parts_are_taken_only_where_somebody_vouches_for_the_whole,
    what_this_machine_cannot_run_is_left_out,
])
