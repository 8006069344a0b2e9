"""Strings as a user gives and gets them: lines of a text, lists of texts, and maps from labels to scores."""
import json

import onnx_file
from tool_test import main

ML = "ai.onnx.ml"


def outputs(t, *args):
    return json.loads(t.run("mlrun", "run", *args, "--json").stdout)["outputs"]  # times go to stderr


def scores(t):
    """Words to numbers, two in a row, and a map for each row."""
    words = onnx_file.node("LabelEncoder", ["x"], ["n"], "words", ML, keys_strings=["one", "two", "half"], values_floats=[1.0, 2.0, 0.5], default_float=-1.0)
    zipped = onnx_file.node("ZipMap", ["n"], ["y"], "zip", ML, classlabels_strings=["left", "r\u00efght"])
    model = onnx_file.model([words, zipped], [onnx_file.port("x", "str", ["rows", 2])], [onnx_file.list_of_maps("y", "str", "f32")], domains=[ML])
    # ai.onnx.ml 2: domains are written as version 1
    model = model.replace(onnx_file.data(8, onnx_file.data(1, ML) + onnx_file.number(2, 1)), onnx_file.data(8, onnx_file.data(1, ML) + onnx_file.number(2, 2)))
    (t.dir / "m.onnx").write_bytes(model)
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "native,portable")


def lines_of_a_text_are_strings_and_a_map_is_shown_as_one(t):
    scores(t)
    (t.dir / "x.txt").write_bytes("one\r\nhalf\n???\ntwo".encode())
    for variant in [v["name"] for v in t.json("mlrun", "explain", "m.mlc")["variants"] if v["answer"] == "fits"]:
        shown = t.run("mlrun", "run", "m.mlc", "-i", "x=x.txt", "--variant", variant).stdout
        assert shown == "y\n  left    1\n  r\u00efght   0.5\n\n  left    -1\n  r\u00efght   2\n", shown
        answer = outputs(t, "m.mlc", "-i", "x.txt", "--variant", variant)
        assert answer == {"y": [{"left": 1.0, "r\u00efght": 0.5}, {"left": -1.0, "r\u00efght": 2.0}]}, answer


def texts_that_do_not_fit_are_refused(t):
    scores(t)
    (t.dir / "odd.txt").write_text("one\ntwo\nhalf\n")
    (t.dir / "zero.bin").write_bytes(b"a\0b\n")
    done = t.run("mlrun", "run", "m.mlc", "-i", "x=odd.txt", code=6)
    assert "odd.txt has 3 lines, x is str[rows,2]" in done.stderr, done.stderr
    done = t.run("mlrun", "run", "m.mlc", "-i", "x=zero.bin", code=6)
    assert "is no text" in done.stderr, done.stderr
    done = t.run("mlrun", "run", "m.mlc", "-i", "random", code=6)
    assert "FILE.txt" in done.stderr, done.stderr
    done = t.run("mlrun", "run", "m.mlc", "-i", "x=hello", code=3)
    assert "cannot open 'hello'" in done.stderr and "help: strings are the lines of a file: -i x=FILE.txt" in done.stderr, done.stderr


def a_list_of_strings_takes_a_text_for_each_item(t):
    grown = onnx_file.node("SequenceInsert", ["l", "x"], ["y"], "grow")
    model = onnx_file.model([grown], [onnx_file.list_of("l", "str", 1), onnx_file.port("x", "str", ["n"])], [onnx_file.list_of("y", "str", 1)])
    (t.dir / "l.onnx").write_bytes(model)
    t.run("mlpack", "build", "l.onnx", "-o", "l.mlc", "--target", "native,portable")
    (t.dir / "a.txt").write_text("a\nb\n")
    (t.dir / "b.txt").write_text("c\n")
    answer = outputs(t, "l.mlc", "-i", "l=a.txt", "-i", "l=b.txt", "-i", "x=b.txt")
    assert [answer[k]["data"] for k in ("y.0", "y.1", "y.2")] == [["a", "b"], ["c"], ["c"]], answer
    answer = outputs(t, "l.mlc", "-i", "x=a.txt")
    assert list(answer) == ["y.0"] and answer["y.0"]["data"] == ["a", "b"], answer


if __name__ == "__main__":
    main([lines_of_a_text_are_strings_and_a_map_is_shown_as_one, texts_that_do_not_fit_are_refused, a_list_of_strings_takes_a_text_for_each_item])
