"""Search of pictures by text: examples/search_pictures through mlrun embed, its index, and what does not fit."""
import pathlib
import shutil
import subprocess

import text_pipeline_test
from tool_test import main

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "search_pictures"
COLOURS = {"red": "pictures/1.png", "green": "pictures/more/2.png", "blue": "pictures/3.png", "yellow": "pictures/more/4.png", "white": "pictures/5.png",
           "black": "pictures/more/6.png"}


def build(t):
    t.run("mlpack", "build", EXAMPLE / "pipeline.json", "-o", "clip.mlc", "--target", "native", "--no-selftest")
    shutil.copytree(EXAMPLE / "pictures", t.dir / "pictures")
    (t.dir / "pictures" / "notes.png").write_text("no picture\n")
    (t.dir / "pictures" / "link.png").symlink_to("1.png")


def embed(t, *args, code=0):
    return t.json("mlrun", "embed", *args, code=code, stderr=None)


def best(answer):
    return {q["text"]: q["nearest"][0]["file"] for q in answer["queries"]}


def a_text_finds_its_picture(t):
    build(t)
    queries = [word for colour in COLOURS for word in ("-q", f"a photo of the {colour} car")]
    answer = embed(t, "clip.mlc", "pictures", "--pipeline", "picture", *queries)
    assert (answer["files"], answer["width"], answer["skipped"], answer["failed"]) == (6, 12, 1, []), answer
    assert best(answer) == {f"a photo of the {colour} car": file for colour, file in COLOURS.items()}, answer
    # The index has the same vectors, and the container needs no word about which pipeline takes a text.
    t.run("mlrun", "embed", "clip.mlc", "pictures", "--pipeline", "picture", "-o", "index.npz")
    again = embed(t, "clip.mlc", "--index", "index.npz", *queries)
    assert again["queries"] == answer["queries"] and again["files"] == 6, again
    text = t.run("mlrun", "embed", "clip.mlc", "--index", "index.npz", "-q", "RED", "--top", "1").stdout.splitlines()
    assert len(text) == 2 and text[0] == "RED" and text[1].endswith("  pictures/1.png"), text
    # A process without privileges gives the same bytes; so do one thread, and a list in place of the folder.
    (t.dir / "list.txt").write_text("".join(f"{f}\n" for f in sorted(COLOURS.values())))
    for args in (("pictures", "--isolated"), ("pictures", "--threads", "1"), ("--input-list", "list.txt"), ("--input-list", "list.txt", "--isolated")):
        t.run("mlrun", "embed", "clip.mlc", "--pipeline", "picture", "-o", "again.npz", *args)
        assert (t.dir / "again.npz").read_bytes() == (t.dir / "index.npz").read_bytes(), args
    t.new_home()
    stranger = embed(t, "clip.mlc", "--index", "index.npz", *queries)
    assert best(stranger) == best(answer) and stranger["isolated"], stranger


def a_broken_picture_has_no_vector_and_is_told(t):
    build(t)
    (t.dir / "pictures" / "0.png").write_bytes((t.dir / "pictures" / "1.png").read_bytes()[:200])
    for more in ((), ("--isolated",)):
        answer = embed(t, "clip.mlc", "pictures", "--pipeline", "picture", "-q", "red", *more)
        assert [f["file"] for f in answer["failed"]] == ["pictures/0.png"] and "truncated" in answer["failed"][0]["message"], answer
        assert answer["files"] == 6 and best(answer) == {"red": "pictures/1.png"}, answer
    done = t.run("mlrun", "embed", "clip.mlc", "pictures/0.png", "--pipeline", "picture", "-o", "none.npz", code=6)
    assert "warning: no vector of pictures/0.png" in done.stderr and "none of 1 file has a vector" in done.stderr, done.stderr
    assert not (t.dir / "none.npz").exists()


def lines_have_an_index_too(t):
    steps = [getattr(text_pipeline_test, step) for step in ("TOKENIZE", "RUN", "POOL", "UNIT")]
    text_pipeline_test.build(t, text_pipeline_test.described(steps))
    (t.dir / "texts" / "deep").mkdir(parents=True)
    (t.dir / "texts" / "a.txt").write_text("Hello world\n\nunaffable, a\n")
    (t.dir / "texts" / "deep" / "b.txt").write_text("xyz\n")
    (t.dir / "texts" / "c.bin").write_bytes(b"a\0b")
    direct = embed(t, "m.mlc", "texts", "-q", "hello", "-o", "lines.npz")
    assert direct["lines"] == 3 and direct["skipped"] == 1, direct
    found = embed(t, "m.mlc", "--index", "lines.npz", "-q", "hello")
    assert found["queries"] == direct["queries"] and found["lines"] == 3, found
    assert {(n["file"], n["line"], n["text"]) for n in found["queries"][0]["nearest"]} == {
        ("texts/a.txt", 1, "Hello world"), ("texts/a.txt", 3, "unaffable, a"), ("texts/deep/b.txt", 1, "xyz")}, found
    # The index of another container, whose vectors have another width.
    build(t)
    t.run("mlrun", "embed", "clip.mlc", "pictures", "--pipeline", "picture", "-o", "index.npz")
    done = t.run("mlrun", "embed", "m.mlc", "--index", "index.npz", "-q", "a", code=6)
    assert "another container than this one" in done.stderr and "the vectors have 12 numbers, and those of queries 8" in done.stderr, done.stderr


def what_makes_no_sense_is_refused(t):
    build(t)
    t.run("mlrun", "embed", "clip.mlc", "pictures", "--pipeline", "picture", "-o", "index.npz")

    def refuses(code, sentence, *args):
        stderr = t.run("mlrun", "embed", "clip.mlc", *args, code=code).stderr
        assert sentence in stderr, (args, stderr)

    refuses(2, "files or folders are required", "-q", "red")
    refuses(2, "--index has the vectors", "pictures", "--index", "index.npz", "-q", "red")
    refuses(2, "-o would write them again", "--index", "index.npz", "-q", "red", "-o", "b.npz")
    refuses(2, "nothing is asked for", "pictures")
    refuses(2, "--query-pipeline picture: it takes no text", "--index", "index.npz", "-q", "red", "--query-pipeline", "picture")
    refuses(2, "no pipeline 'photo'", "pictures", "-q", "red", "--pipeline", "photo")
    refuses(3, "cannot open", "--index", "nowhere.npz", "-q", "red")
    refuses(6, "is no index of vectors: it is image/png", "--index", "pictures/1.png", "-q", "red")
    shutil.copy(t.dir / "index.npz", t.dir / "cut.npz")
    (t.dir / "cut.npz").write_bytes((t.dir / "index.npz").read_bytes()[:300])
    few = subprocess.run(["sh", "-c", f"ulimit -n 68; exec '{t.bin / 'mlrun'}' embed clip.mlc pictures --pipeline picture -q red --isolated"], cwd=t.dir, env=t.env,
                         capture_output=True, text=True)
    assert few.returncode == 7 and "7 files are opened before the container is, and this process may open 68" in few.stderr, few
    assert t.run("mlrun", "embed", "clip.mlc", "--index", "cut.npz", "-q", "red", code=(4, 6)).stderr.startswith("error")


if __name__ == "__main__":
    main([a_text_finds_its_picture, a_broken_picture_has_no_vector_and_is_told, lines_have_an_index_too, what_makes_no_sense_is_refused])
