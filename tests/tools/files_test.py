"""mlrun of several files: folders, lists, names with --json-lines; what is left out, what fails, where pictures go."""
import json
import os
import shutil
import subprocess

import boxes_test
from mlrun_test import IMAGES, ask, container
from tool_test import main

PHOTO = next(image for image in IMAGES if image.name == "photo_3.jpg")


def folder(t):
    """Five pictures of the example and one below; a text, a broken picture, a link, hidden ones."""
    container(t)
    images = t.dir / "images"
    (images / "below" / ".git").mkdir(parents=True)
    for image in IMAGES:
        shutil.copy(image, images)
    shutil.copy(PHOTO, images / "below" / "a.txt")  # its bytes say what it is
    shutil.copy(PHOTO, images / ".hidden.jpg")
    shutil.copy(PHOTO, images / "below" / ".git" / "b.jpg")
    (images / "notes.jpg").write_text("no picture\n")
    (images / "broken.jpg").write_bytes(PHOTO.read_bytes()[:300])
    (t.dir / "elsewhere").mkdir()
    shutil.copy(PHOTO, t.dir / "elsewhere" / "c.jpg")
    (images / "link.jpg").symlink_to("../elsewhere/c.jpg")
    (images / "links").symlink_to("../elsewhere")
    return images


def lines(t, *args, code=0, stdin=""):
    done = subprocess.run([str(t.bin / "mlrun"), *map(str, args)], cwd=t.dir, env=t.env, input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (args, done)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


# The entries of each folder by the bytes of their names.
ORDER = ["images/below/a.txt", "images/broken.jpg", "images/dark_8.png", "images/photo_3.jpg", "images/plain_7.png", "images/transparent_5.png", "images/turned_2.jpg"]


def a_folder_is_answered_file_by_file(t):
    folder(t)
    found, said = lines(t, "digits.mlc", "-i", "images/", "--json-lines", code=4)
    assert [a["file"] for a in found] == ORDER, found
    assert "6 files answered · 1 failed · 1 skipped that the pipeline does not take · 2 symbolic links not followed" in said, said
    assert not found[1]["ok"] and found[1]["exit_code"] == 4 and "Premature end" in found[1]["message"], found[1]
    for answer in found[:1] + found[2:]:
        alone = ask(t, "digits.mlc", "-i", answer["file"])
        assert answer["schema"] == "mlc.run/1" and answer["ok"] and answer["outputs"] == alone["outputs"], (answer, alone)
        assert set(alone) | {"file"} == set(answer), (alone, answer)
    texts = t.run("mlrun", "digits.mlc", "--input", "images", code=4)
    blocks = texts.stdout.split("\nimages/")
    assert len(blocks) == 6 and blocks[0].startswith("images/below/a.txt:\n  3   0.9"), texts.stdout
    assert "error: images/broken.jpg: " in texts.stderr, texts.stderr
    # The name of the input may stand before it, and threads change nothing.
    again, _ = lines(t, "digits.mlc", "-i", "picture=images", "--json-lines", "--threads", "1", "--top", "1", code=4)
    assert [a["outputs"]["digits"] for a in again if a["ok"]] == [a["outputs"]["digits"][:1] for a in found if a["ok"]], again


def a_stranger_s_container_opens_each_file_in_a_process_of_its_own(t):
    folder(t)
    here, _ = lines(t, "digits.mlc", "-i", "images", "--json-lines", "--variant", "portable", code=4)
    there, said = lines(t, "digits.mlc", "-i", "images", "--json-lines", "--variant", "portable", "--isolated", code=4)
    assert [(a["file"], a.get("outputs"), a.get("message")) for a in here] == [(a["file"], a.get("outputs"), a.get("message")) for a in there], there
    assert said.count("one process for each file") == 1 and "6 files answered · 1 failed · 1 skipped" in said, said
    t.new_home()
    stranger, said = lines(t, "digits.mlc", "-i", "images", "--json-lines", code=4)
    assert [a.get("outputs") for a in stranger] == [a.get("outputs") for a in here], stranger
    assert {a["isolated"] for a in stranger if a["ok"]} == {True} and {a["variant"] for a in stranger if a["ok"]} == {"portable"}, stranger
    assert said.count("portable form only") == 1, said
    # What one file takes too much of fails that file alone.
    limited, _ = lines(t, "digits.mlc", "-i", "images", "--json-lines", "--memory-limit", "1M", code=(4 if limited_by_size(t) else 7))
    assert len(limited) == 7, limited
    refused, _ = lines(t, "digits.mlc", "-i", "images", "--json-lines", "--variant", "nonesuch", code=2)
    assert len(refused) == 1 and not refused[0]["ok"], refused


def limited_by_size(t):
    """Whether the first file fits the limit above alone, as a run of its own says."""
    return t.run("mlrun", "digits.mlc", "-i", "images/below/a.txt", "--memory-limit", "1M", code=(0, 7)).returncode == 0


def lists_name_files(t):
    folder(t)
    names = ["images/turned_2.jpg", "images/link.jpg", "images/below", "images/notes.jpg", "nowhere.png"]
    (t.dir / "list.txt").write_text("\n".join(names) + "\n\n")
    found, said = lines(t, "digits.mlc", "--input-list", "list.txt", "--json-lines", code=6)
    # What is named is taken as it is: a link is followed, and what the pipeline does not take is an error.
    assert [(a["file"], a["ok"]) for a in found] == [("images/turned_2.jpg", True), ("images/link.jpg", True), ("images/below/a.txt", True),
                                                     ("images/notes.jpg", False), ("nowhere.png", False)], found
    assert [a.get("exit_code", 0) for a in found] == [0, 0, 0, 6, 3], found
    for text in ("\n".join(names[:3]), "\r\n".join(names[:3]), "\0".join(names[:3])):
        for more in ((), ("--isolated",)):
            piped, _ = lines(t, "digits.mlc", "--input-list", "-", "--json-lines", *more, stdin=text)
            assert [a["outputs"] for a in piped] == [a["outputs"] for a in found[:3]], (text, piped)
    several, _ = lines(t, "digits.mlc", "images/turned_2.jpg", "images/link.jpg", "--json-lines")
    assert [a["outputs"] for a in several] == [a["outputs"] for a in found[:2]], several


def pictures_go_to_a_folder(t):
    boxes_test.detector(t, boxes_test.ROWS)
    boxes_test.pipeline(t, {"score": 0.25, "iou": 0.5, "per": "class"}, boxes_test.DRAW, ["found", "drawn"])
    t.run("mlpack", "build", "d.onnx", "--pipeline", "p.json", "-o", "d.mlc", "--target", "native")
    (t.dir / "in" / "deep").mkdir(parents=True)
    for k, name in enumerate(("a.png", "b.png", "deep/a.png", "deep/c", "b.bmp")):
        (t.dir / "in" / name).write_bytes(boxes_test.png(20 + k, 40))
    (t.dir / "in" / "bad.png").write_bytes(boxes_test.png(20, 40)[:60])
    made = {"a.png", "b.png.png", "b.bmp.png", "deep/a.png", "deep/c.png"}
    for out, more in (("out", ()), ("in/out", ("--isolated",)), ("in/out", ())):  # the second time the folder of results is there, and no input
        found, _ = lines(t, "d.mlc", "-i", "in", "--json-lines", "-o", out + "/", *more, code=4)
        assert len(found) == 6, found
        there = {str(p.relative_to(t.dir / out)) for p in (t.dir / out).rglob("*") if p.is_file()}
        assert there == made, there  # nothing half written, nothing of the broken one
        for answer in (a for a in found if a["ok"]):
            t.run("mlrun", "d.mlc", "-i", answer["file"], "-o", "alone.png")
            assert (t.dir / answer["output_file"]).read_bytes() == (t.dir / "alone.png").read_bytes(), answer
            assert list(answer["outputs"]) == ["found"], answer


def what_makes_no_sense_is_refused(t):
    folder(t)

    def refuses(code, text, *args, stdin=""):
        done = subprocess.run([str(t.bin / "mlrun"), *args], cwd=t.dir, env=t.env, input=stdin, capture_output=True, text=True, timeout=120)
        assert done.returncode == code and text in done.stderr + done.stdout, (args, done)

    refuses(2, "--json prints one object", "digits.mlc", "-i", "images", "--json")
    refuses(2, "--raw", "digits.mlc", "-i", "images", "--raw")
    refuses(2, "go into a folder", "digits.mlc", "-i", "images", "-o", "answers.json")
    refuses(2, "takes one picture or sound of each file", "digits.mlc", "-i", "images", "-o", "out/")
    refuses(6, "'photo' is no input", "digits.mlc", "-i", "photo=images")
    refuses(2, "this run has none", "bare.mlc", "-i", "images", "--allow-unsigned")
    refuses(3, "no file", "digits.mlc", "--input-list", "-", "--json-lines")
    refuses(2, "standard input is no file of a list", "digits.mlc", "--input-list", "-", stdin="-\n")
    refuses(3, "cannot open", "digits.mlc", "--input-list", "nowhere.txt")
    if os.path.exists("/dev/full"):
        for more in ((), ("--isolated",)):
            with open("/dev/full", "w") as full:
                done = subprocess.run([str(t.bin / "mlrun"), "digits.mlc", "-i", "images/below", "-i", "images/plain_7.png", "--json-lines", *more], cwd=t.dir, env=t.env,
                                      stdout=full, stderr=subprocess.PIPE, text=True)
            assert done.returncode == 3 and "could not be written" in done.stderr, done
            assert not more or done.stderr.count("could not be written") == 1, done.stderr
    (t.dir / "texts").mkdir()
    (t.dir / "texts" / "a").write_text("a")
    refuses(6, "none of 1 file is one that the pipeline takes", "digits.mlc", "-i", "texts", "--json-lines")
    refuses(6, "--json-lines answers each", "digits.mlc", "images/turned_2.jpg", "images/link.jpg")


if __name__ == "__main__":
    main([a_folder_is_answered_file_by_file, a_stranger_s_container_opens_each_file_in_a_process_of_its_own, lists_name_files, pictures_go_to_a_folder,
          what_makes_no_sense_is_refused])
