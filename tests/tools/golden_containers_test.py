"""Containers of every version that was released open, verify and run; files of the next version do what spec/compatibility.md promises."""
import json
import pathlib
import shutil
import struct
import sys
import zlib

from tool_test import main

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent / "golden_containers"
sys.path.insert(0, str(HERE.parent / "support"))
import mlc_reader  # noqa: E402

VERSIONS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0].isdigit())
# relu(x w + b) of make.py for x = 1 2 3 4.
W = [((k * 5) % 7 - 3) / 2 for k in range(12)]
ANSWER = [max(0.0, sum((r + 1) * W[r * 3 + c] for r in range(4)) + b) for c, b in enumerate((0.5, -1, 2))]


def files(t):
    for version in VERSIONS:
        roots = json.loads((FOLDER / version / "roots.json").read_text())
        for name, root in roots.items():
            shutil.copy(FOLDER / version / name, t.dir / name)
            shutil.copy(FOLDER / version / "key.pub.pem", t.dir / "key.pub.pem")
            yield name, root


def picture(t):
    """Two by two grey points as a PNG."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(row) for row in ((0, 255), (255, 0)))
    (t.dir / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return t.dir / "p.png"


def answer(t, name, *more):
    if name == "picture.mlc":
        seen = t.run("mlrun", "run", name, "-i", picture(t), "--trust", "key.pub.pem", *more).stdout
        assert any(word in seen for word in ("ant", "bee", "cat")), seen
        return
    t.run("mlrun", "run", name, "-i", "x=@x.f32:f32[1,4]", "--trust", "key.pub.pem", "-o", "y.npy", *more)
    found = struct.unpack("<3f", (t.dir / "y.npy").read_bytes()[-12:])
    assert all(abs(a - b) < 1e-4 for a, b in zip(found, ANSWER)), (name, found, ANSWER)


def every_golden_container_opens_verifies_and_runs(t):
    assert VERSIONS, "no golden containers"
    (t.dir / "x.f32").write_bytes(struct.pack("<4f", 1, 2, 3, 4))
    count = 0
    for name, root in files(t):
        signed = name != "unsigned.mlc"
        seen = t.json("mlpack", "verify", name, "--deep", "--key", "key.pub.pem", "--expect-root", root, code=0 if signed else 10)
        assert seen["root"] == root and not seen["problems"], seen
        t.run("mlrun", "selftest", name, *(("--trust", "key.pub.pem") if signed else ("--allow-unsigned",)))
        answer(t, name)
        answer(t, name, "--variant", "portable")
        count += 1
    assert count >= 4
    # Golden files go together: what the thin one lacks, the whole one has.
    t.run("mlpack", "fill", "thin.mlc", "--from", "unsigned.mlc")
    assert (t.dir / "thin.mlc").read_bytes() == (t.dir / "signed.mlc").read_bytes()


def with_unknown_field(manifest, field):
    """The manifest whose root table has one more field, number `field`, which is a u32."""
    old = mlc_reader.Table(manifest, struct.unpack_from("<I", manifest)[0])
    entries = old.fields + [0] * (field + 1 - len(old.fields))
    known = [k for k, offset in enumerate(old.fields) if offset]
    vtable_len, table_len = 4 + 2 * len(entries), 4 + 4 * (len(known) + 1)
    vtable_at = 8
    table_at = mlc_reader.align(vtable_at + vtable_len, 8)
    front = mlc_reader.align(table_at + table_len, 16)
    table = bytearray(struct.pack("<i", table_at - vtable_at))
    for slot, k in enumerate(known):
        entries[k] = 4 + 4 * slot
        table += struct.pack("<I", old.target(k) + front - (table_at + entries[k]))
    entries[field] = len(table)
    table += struct.pack("<I", 0xC0FFEE)
    head = struct.pack("<I", table_at) + b"MLCM" + struct.pack(f"<HH{len(entries)}H", vtable_len, table_len, *entries)
    return bytes((head.ljust(table_at, b"\0") + table).ljust(front, b"\0")) + manifest


def rebuilt(data, change=lambda manifest: manifest, major=1, minor=0, optional_flags=0):
    """An unsigned container with another manifest and header, its segments where they belong then."""
    count, manifest_len = struct.unpack_from("<I", data, 28)[0], struct.unpack_from("<Q", data, 32)[0]
    old_off = mlc_reader.align(4096 + 8 * count, 4096)
    manifest = change(data[old_off:old_off + manifest_len])
    segments = mlc_reader.read_manifest(manifest)["segments"]
    present = [offset != 0 for offset in struct.unpack_from(f"<{count}Q", data, 4096)]
    was, now = mlc_reader.place(manifest_len, segments, present), mlc_reader.place(len(manifest), segments, present)
    out = bytearray(now[4])
    out[:64] = data[:64]
    struct.pack_into("<HHIII", out, 8, major, minor, 4096, 0, optional_flags)
    struct.pack_into("<Q", out, 32, len(manifest))
    struct.pack_into("<5Q", out, 64, now[4], 4096, now[0], now[3], now[4] - now[3])
    struct.pack_into(f"<{count}Q", out, 4096, *now[1])
    out[now[0]:now[0] + len(manifest)] = manifest
    for k, segment in enumerate(segments):
        for at, length in ((1, segment["stored"]),):
            out[now[at][k]:now[at][k] + length] = data[was[at][k]:was[at][k] + length]
        (new_table, length, _), old_table = now[2][k], was[2][k][0]
        out[new_table:new_table + length] = data[old_table:old_table + length]
    return bytes(out)


def a_file_of_the_next_minor_version_opens(t):
    (t.dir / "x.f32").write_bytes(struct.pack("<4f", 1, 2, 3, 4))
    for name, _ in files(t):
        if name != "unsigned.mlc":
            continue
        data = (t.dir / name).read_bytes()
        assert rebuilt(data) == data, "the same parts make the same file"
        for field in (15, 16, 40):
            (t.dir / "next.mlc").write_bytes(rebuilt(data, lambda m: with_unknown_field(m, field), minor=1, optional_flags=2))
            seen = t.json("mlpack", "inspect", "next.mlc")
            assert any("format 1.1 is newer than 1.0" in note for note in seen["notes"]) and any("flags" in note for note in seen["notes"]), seen["notes"]
            assert not t.json("mlpack", "verify", "next.mlc", "--deep", code=10)["problems"]
            t.run("mlrun", "selftest", "next.mlc", "--allow-unsigned")
            answer(t, "next.mlc")
            t.run("mlpack", "sign", "next.mlc")
            answer(t, "next.mlc")


def a_file_of_the_next_major_version_says_what_to_do(t):
    for name, _ in files(t):
        data = bytearray((t.dir / name).read_bytes())
        struct.pack_into("<H", data, 8, 2)
        (t.dir / "next.mlc").write_bytes(data)
        for command in ("verify", "inspect"):
            refused = t.json("mlpack", command, "next.mlc", code=4)
            assert "container format 2.0, this version reads 1.x" in refused["message"] and "update mlrun" in refused["help"], refused
        t.run("mlrun", "run", "next.mlc", "-i", "random", code=4)


def what_a_reader_must_know_and_does_not_is_named(t):
    for name, _ in files(t):
        data = bytearray((t.dir / name).read_bytes())
        struct.pack_into("<I", data, 16, 4)  # a critical flag
        (t.dir / "next.mlc").write_bytes(data)
        refused = t.json("mlpack", "verify", "next.mlc", code=4)
        assert "critical" in refused["message"] and "4" in refused["message"], refused


if __name__ == "__main__":
    main([every_golden_container_opens_verifies_and_runs, a_file_of_the_next_minor_version_opens, a_file_of_the_next_major_version_says_what_to_do,
          what_a_reader_must_know_and_does_not_is_named])
