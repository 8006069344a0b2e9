"""Images, layouts, and copies from one place to another."""
import gzip
import io
import json
import tarfile

from pushed import REPOSITORY, Pushed, names, sample, tagged
from small_registry import SmallRegistry, digest_of
from tool_test import main


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
        assert manifest["config"]["mediaType"] == "application/vnd.oci.image.config.v1+json"
        assert config["rootfs"]["diff_ids"] == [digest_of(tar)] == [image["blob"]]
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
        assert [entry["digest"] for entry in entries] == [p.pushed["digest"]] + [image["digest"]] * 4, entries
        assert [entry.get("platform", {}).get("architecture") for entry in entries] == [None, "amd64", "arm64", "riscv64", "loong64"]
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
        file, link = tarfile.REGTYPE, tarfile.SYMTYPE
        cases = [tar[:1024], tar[:700], bytes(4096), gzip.compress(tar), made(("models/other", p.data, file)), made(("models/model.mlc", b"", link)),
                 made(("a", b"x" * 100_000, file), good), made(good, ("b", b"y" * 100_000, file)), made(("./models/model.mlc", p.data, file)),
                 *map(bytes, sizes)]
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


def copies_within_a_registry_mount_what_they_can(t):
    with Pushed(t) as p:
        to = f"{p.registry.host}/acme/other:copied"
        answer = t.json("mlpack", "copy", p.reference, to)
        assert answer["bytes"] == 0 and answer["digest"] == p.pushed["digest"], answer
        assert p.registry.blobs["acme/other"] and set(p.registry.blobs["acme/other"]) <= set(p.registry.blobs[REPOSITORY])
        p.pull(reference=to)
        # A registry that begins an upload instead is told that none follows, and gets the bytes.
        p.registry.mounts = False
        to = f"{p.registry.host}/acme/third:copied"
        answer = t.json("mlpack", "copy", p.reference, to)
        assert answer["bytes"] > 0, answer
        assert p.registry.uploads == {}, p.registry.uploads
        assert any(entry["verb"] == "DELETE" and entry["status"] == 204 for entry in p.registry.log)
        p.pull(reference=to)


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


main([
    images_hold_the_file_in_a_tar, tars_that_are_none_are_refused, layouts_appear_complete_or_not_at_all, copies_take_their_referrers_along,
    copies_within_a_registry_mount_what_they_can, copies_go_through_a_folder, copies_believe_no_listing,
])
