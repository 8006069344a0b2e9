"""From texts to an answer through the tools: what a small model of the form of BERT answers is computed here (text_model.py)."""
import json
import math
import pathlib
import shutil
import struct

import text_model
from onnx_file import model, node, port
from tool_test import main

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
EXAMPLE, RERANK = EXAMPLES / "sentences", EXAMPLES / "rerank"
W = text_model.Weights()
TOKENIZE = {"op": "tokenize", "in": "text", "tokenizer": "tokenizer.json", "special_tokens": True, "truncate": {"max": 8, "side": "right"},
            "pad": {"to": "longest", "side": "right", "id": 0}, "out": {"ids": "ids", "mask": "mask", "type_ids": "types"}}
RUN = {"op": "run", "program": "main", "in": {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "types"},
       "out": {"last_hidden_state": "hidden"}}
POOL = {"op": "pool", "in": "hidden", "mask": "mask", "how": "mean"}
UNIT = {"op": "normalize", "norm": "l2", "out": "embedding"}
# What the tokenizer makes of them.
IDS = {"Hello world": [2, 4, 5, 3], "": [2, 3], "unaffable, a": [2, 7, 8, 9, 10, 12, 3], "xyz": [2, 1, 3],
       "a b c a b c a b c a b c": [2, 12, 13, 14, 12, 13, 14, 3]}


def described(steps, outputs=("embedding",), inputs=("text",)):
    return {"mlc_pipeline": 1, "inputs": {name: {"accept": ["text/plain"]} for name in inputs}, "steps": steps, "outputs": list(outputs)}


def files(t, pipeline, onnx=None, tokenizer=None):
    (t.dir / "tokenizer.json").write_text(tokenizer or text_model.tokenizer())
    (t.dir / "m.onnx").write_bytes(onnx or text_model.model(W))
    (t.dir / "p.json").write_text(json.dumps(pipeline))


def build(t, pipeline, onnx=None, target="native"):
    files(t, pipeline, onnx)
    return t.json("mlpack", "build", "m.onnx", "--pipeline", "p.json", "--target", target, "-o", "m.mlc")


def variants(t):
    found = [v["name"] for v in t.json("mlrun", "explain", "m.mlc")["variants"] if v["answer"] == "fits"]
    assert "portable" in found and len(found) >= 2, found
    return found


def outputs(t, *args):
    return t.json("mlrun", "run", "m.mlc", *args, stderr=None)["outputs"]


def rows(output):
    width = output["shape"][-1]
    return [output["data"][i:i + width] for i in range(0, len(output["data"]), width)]


def near(found, expected):
    assert len(found) == len(expected), (len(found), len(expected))
    for a, b in zip(found, expected):
        assert all(abs(x - y) < 1e-5 for x, y in zip(a, b)) and len(a) == len(b), (found, expected)


def expected(text, columns=None):
    ids = IDS[text]
    return text_model.embedding(W, ids, [0] * len(ids), [1] * len(ids), columns)


def texts_become_embeddings_in_every_variant(t):
    built = build(t, described([TOKENIZE, RUN, POOL, UNIT]))
    assert built["selftest"]["vectors"] == 5, built["selftest"]
    golden = {g["name"] for g in t.json("mlpack", "inspect", "m.mlc")["golden"]}
    assert golden == {"main", "default/text", "default/two texts", "default/empty text", "default/long text"}, golden
    for variant in variants(t):
        for text in IDS:  # alone
            answer = outputs(t, "-i", f"text={text}", "--variant", variant)["embedding"]
            assert answer["shape"] == [1, W.width], answer
            near(rows(answer), [expected(text)])
        many = [f"text={text}" for text in IDS]  # together, filled up: the same
        answer = outputs(t, *[a for text in many for a in ("-i", text)], "--variant", variant)["embedding"]
        near(rows(answer), [expected(text) for text in IDS])


GROUPED = {**TOKENIZE, "pad": {**TOKENIZE["pad"], "to": "longest_of_group"}}


def texts_of_like_length_run_together(t):
    texts = [text for text in IDS for _ in range(3)]
    args = [a for text in texts for a in ("-i", f"text={text}")]
    for extents in ("batch", "tokens"), (1, "tokens"):  # a model of one text at a time takes a list
        build(t, described([GROUPED, RUN, POOL, UNIT]), text_model.model(W, extents=extents))
        for variant in variants(t):
            near(rows(outputs(t, *args, "--variant", variant)["embedding"]), [expected(text) for text in texts])
    done = t.run("mlrun", "m.mlc", *args, "--memory-limit", "64M")
    assert done.stdout, done
    for steps, onnx, answer, why in (
            ([GROUPED, {**RUN, "out": {"last_hidden_state": "hidden"}}], None, "hidden", "'hidden' has no row of one shape for each text"),
            ([GROUPED, RUN, POOL, UNIT], text_model.model(W, extents=(2, "tokens")), "embedding", "the model takes 2 rows, no more and no fewer")):
        files(t, described(steps, outputs=[answer]), onnx)
        done = t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "--target", "native", "-o", "no.mlc", code=2)
        assert "E5009" in done.stderr and why in done.stderr and "pad to \"longest\"" in done.stderr, done.stderr


def a_text_may_be_a_file(t):
    build(t, described([TOKENIZE, RUN, POOL, UNIT]))
    (t.dir / "a.txt").write_bytes(b"\xef\xbb\xbfHello world")
    near(rows(outputs(t, "-i", "a.txt")["embedding"]), [expected("Hello world")])
    near(rows(outputs(t, "-i", "text=@a.txt", "-i", "text=xyz")["embedding"]), [expected("Hello world"), expected("xyz")])
    for text in "random", "12", "a=b":  # a text, whatever it looks like
        assert outputs(t, "-i", f"text={text}")["embedding"]["shape"] == [1, W.width]
    (t.dir / "bad.txt").write_bytes(b"Hello \xff world")
    for args in (["-i", "bad.txt"], ["-i", "text=a", "-i", "text=@bad.txt"]):
        done = t.run("mlrun", "run", "m.mlc", *args, code=6)
        assert "no UTF-8: byte 6 is wrong" in done.stderr and "input 'text'" in done.stderr, done.stderr
    assert "text 2 of 2" in done.stderr, done.stderr
    (t.dir / "large.txt").write_text("a " * 2_000_000)
    done = t.run("mlrun", "run", "m.mlc", "-i", "large.txt", code=7)
    assert "needs more memory to be tokenized" in done.stderr and "cut the text into parts" in done.stderr, done.stderr
    done = t.run("mlrun", "run", "m.mlc", "-i", "words=a", code=6)
    assert "'words' is no input of the pipeline" in done.stderr, done.stderr


def lines_nearest_to_a_text(t):
    build(t, described([TOKENIZE, RUN, POOL, UNIT]))
    lines = ["xyz", "Hello world", "", "unaffable, a", "a b c a b c a b c a b c"]
    (t.dir / "lines.txt").write_text("\n".join(lines) + "\n")
    (t.dir / "more.txt").write_bytes(b"\xef\xbb\xbfHello world\r\n")
    texts = [line for line in lines if line]
    query = expected("Hello world")

    def cosine(text):
        return sum(a * b for a, b in zip(expected(text), query))

    for batch in 1, 3, 32:  # the same whatever runs together
        found = t.json("mlrun", "embed", "m.mlc", "lines.txt", "--query", "Hello world", "--query", "", "--batch", str(batch), stderr=None)
        assert found["lines"] == len(texts) and found["width"] == W.width and len(found["queries"]) == 2, found
        nearest = found["queries"][0]["nearest"]
        assert [n["text"] for n in nearest] == sorted(texts, key=cosine, reverse=True), nearest
        assert all(abs(n["cosine"] - cosine(n["text"])) < 1e-5 and lines[n["line"] - 1] == n["text"] for n in nearest), nearest
    done = t.run("mlrun", "embed", "m.mlc", "lines.txt", "more.txt", "-q", "Hello world", "--top", "2")
    assert [line.split(None, 2)[1] for line in done.stdout.splitlines()[1:]] == ["lines.txt:2", "more.txt:1"], done.stdout
    t.run("mlrun", "embed", "m.mlc", "lines.txt", "-o", "v.json")
    near(rows(json.loads((t.dir / "v.json").read_text())["embedding"]), [expected(text) for text in texts])


def what_embed_refuses(t):
    build(t, described([TOKENIZE, RUN, POOL, UNIT]))
    (t.dir / "lines.txt").write_text("Hello\n")
    (t.dir / "blank.txt").write_text("\n \n")
    (t.dir / "bad.txt").write_bytes(b"Hello\nwo\xffrld\n")
    for args, code, sentence in ((["lines.txt"], 2, "--query TEXT"), ([], 2, "files or folders are required"), (["none.txt", "-q", "a"], 3, "none.txt"),
                                 (["blank.txt", "-q", "a"], 6, "no line"), (["bad.txt", "-q", "a"], 6, "bad.txt:2: the text is no UTF-8: byte 2"),
                                 (["lines.txt", "-q", "a\udcff"], 6, "no UTF-8")):
        done = t.run("mlrun", "embed", "m.mlc", *args, code=code)
        assert sentence in done.stderr, (sentence, done.stderr)
    done = t.run("mlrun", "m.mlc", "Hello world", code=3)
    assert "-i 'text=Hello world'" in done.stderr, done.stderr
    build(t, described([TOKENIZE, {**RUN, "out": {"last_hidden_state": "hidden"}}], outputs=["hidden"]))
    done = t.run("mlrun", "embed", "m.mlc", "lines.txt", "-q", "a", code=2)
    assert "one f32 vector for each text" in done.stderr, done.stderr


def two_texts_are_a_pair(t):
    pair = {**TOKENIZE, "in": {"first": "question", "second": "context"}, "truncate": {"max": 8, "side": "right", "cut": "second"}}
    build(t, described([pair, RUN, POOL, UNIT], inputs=("question", "context")))
    ids, types = [2, 12, 3, 13, 14, 3], [0, 0, 0, 1, 1, 1]
    wanted = [text_model.embedding(W, ids, types, [1] * 6)]
    cut = [2, 12, 3, 13, 13, 13, 13, 3]
    wanted.append(text_model.embedding(W, cut, [0] * 3 + [1] * 5, [1] * 8))
    for variant in variants(t):
        answer = outputs(t, "-i", "question=a", "-i", "context=b c", "-i", "question=a", "-i", "context=b b b b b b b", "--variant", variant)
        near(rows(answer["embedding"]), wanted)
    done = t.run("mlrun", "run", "m.mlc", "-i", "question=a", "-i", "context=b", "-i", "context=c", code=6)
    assert "'question' has 1 texts and 'context' 2" in done.stderr, done.stderr
    done = t.run("mlrun", "run", "m.mlc", "-i", "question=a", code=6)
    assert "context   missing, expected text/plain" in done.stderr, done.stderr


def weighted_mean(rows):
    """The first row has weight 1, the next 2, ..."""
    return [sum((i + 1) * v for i, v in enumerate(column)) / (len(rows) * (len(rows) + 1) / 2) for column in zip(*rows)]


def each_way_to_pool_and_cut(t):
    pipelines = {}
    for how in "mean", "mean_sqrt_len", "weightedmean", "first", "last", "max":
        pipelines[how] = {key: value for key, value in described([TOKENIZE, RUN, {**POOL, "how": how, "out": "embedding"}]).items() if key != "mlc_pipeline"}
    pipelines["cut"] = {key: value for key, value in described([TOKENIZE, RUN, POOL, {"op": "truncate", "columns": 3}, UNIT]).items() if key != "mlc_pipeline"}
    left = {**TOKENIZE, "pad": {"to": "longest", "side": "left", "id": 0}, "truncate": {"max": 4, "side": "left"}}
    pipelines["left"] = {key: value for key, value in described([left, RUN, {**POOL, "how": "first", "out": "embedding"}]).items() if key != "mlc_pipeline"}
    pipelines["left_weighted"] = {key: value for key, value in described([left, RUN, {**POOL, "how": "weightedmean", "out": "embedding"}]).items() if key != "mlc_pipeline"}
    build(t, {"mlc_pipeline": 1, "pipelines": pipelines})
    hidden = {text: text_model.hidden(W, ids, [0] * len(ids), [1] * len(ids)) for text, ids in IDS.items()}
    ways = {"mean": lambda h: [sum(c) / len(h) for c in zip(*h)], "first": lambda h: h[0], "last": lambda h: h[-1], "max": lambda h: [max(c) for c in zip(*h)],
            "mean_sqrt_len": lambda h: [sum(c) / len(h) ** 0.5 for c in zip(*h)], "weightedmean": weighted_mean}
    args = [a for text in IDS for a in ("-i", f"text={text}")]
    for variant in variants(t):
        for how, way in ways.items():
            near(rows(outputs(t, *args, "--pipeline", how, "--variant", variant)["embedding"]), [way(h) for h in hidden.values()])
        near(rows(outputs(t, *args, "--pipeline", "cut", "--variant", variant)["embedding"]), [expected(text, 3) for text in IDS])
        answer = rows(outputs(t, "-i", "text=a b c a b c", "-i", "text=a", "--pipeline", "left", "--variant", variant)["embedding"])
        cut, short = text_model.hidden(W, [2, 13, 14, 3], [0] * 4, [1] * 4), text_model.hidden(W, [2, 12, 3], [0] * 3, [1] * 3)
        near(answer, [cut[0], short[0]])
        # What is filled up in front takes no weight.
        answer = rows(outputs(t, "-i", "text=a b c a b c", "-i", "text=a", "--pipeline", "left_weighted", "--variant", variant)["embedding"])
        near(answer, [weighted_mean(cut), weighted_mean(short)])


def a_model_of_fixed_sizes_and_small_integers(t):
    onnx = text_model.model(W, "i32", (1, 8))
    files(t, described([TOKENIZE, RUN, POOL, UNIT]), onnx)
    done = t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "--target", "native", "-o", "m.mlc", code=2)
    assert "wants 'input_ids' as i32[1, 8]" in done.stderr or "with 8 tokens" in done.stderr, done.stderr
    build(t, described([{**TOKENIZE, "pad": {"to": 8, "side": "right", "id": 0}}, RUN, POOL, UNIT]), onnx)
    for variant in variants(t):
        for text in IDS:
            near(rows(outputs(t, "-i", f"text={text}", "--variant", variant)["embedding"]), [expected(text)])
    done = t.run("mlrun", "run", "m.mlc", "-i", "text=a", "-i", "text=b", code=6)
    assert "ids   found [2,8], expected [1,8]" in done.stderr, done.stderr


def numbers_become_texts(t):
    """The ids of the tokens themselves, or the highest of what the model gives."""
    onnx = model([node("Identity", ["input_ids"], ["y"])], [port("input_ids", "i64", ["n", "t"])], [port("y", "i64", ["n", "t"])])
    tokens = {key: value for key, value in TOKENIZE.items() if key != "out"} | {"out": {"ids": "ids"}}
    steps = [tokens, {"op": "run", "program": "main", "in": {"input_ids": "ids"}, "out": {"y": "numbers"}},
             {"op": "detokenize", "in": "numbers", "tokenizer": "tokenizer.json", "skip_special": True, "out": "answer"}]
    build(t, described(steps, ["answer"]), onnx)
    for variant in variants(t):
        assert outputs(t, "-i", "text=Hello, unaffable", "--variant", variant)["answer"] == {"text": "hello, unaffable"}
        answer = outputs(t, "-i", "text=Hello world.", "-i", "text=", "--variant", variant)["answer"]
        assert answer == [{"text": "hello world."}, {"text": ""}], answer
    assert t.run("mlrun", "run", "m.mlc", "-i", "text=a b").stdout == "a b\n"


def the_example_is_a_pipeline_of_this_form(t):
    (t.dir / "m.onnx").write_bytes(text_model.model(W))
    assert json.loads((EXAMPLE / "tokenizer.json").read_text()) == json.loads(text_model.tokenizer())
    t.run("mlpack", "build", "m.onnx", "--pipeline", EXAMPLE / "pipeline.json", "--target", "native", "-o", "m.mlc")
    near(rows(outputs(t, "-i", "text=Hello world", "-i", "text=")["embedding"]), [expected("Hello world"), expected("")])


def folder(t, onnx=None, **files):
    """A folder of sentence-transformers; None leaves a file out."""
    pooling = {"word_embedding_dimension": 8, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}
    modules = [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
               for i, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")])]
    found = {"config.json": {"model_type": "bert", "pad_token_id": 0, "max_position_embeddings": 512}, "tokenizer_config.json": {"model_max_length": 8},
             "modules.json": modules, "1_Pooling/config.json": pooling, "sentence_bert_config.json": {"max_seq_length": 8, "do_lower_case": False},
             "tokenizer.json": json.loads(text_model.tokenizer())} | {name.replace("__", "/") + ".json": value for name, value in files.items()}
    for old in t.dir.glob("hf/**/*.json"):
        old.unlink()
    for name, value in found.items():
        if value is None:
            continue
        (t.dir / "hf" / name).parent.mkdir(parents=True, exist_ok=True)
        (t.dir / "hf" / name).write_text(json.dumps(value))
    (t.dir / "hf/onnx").mkdir(exist_ok=True)
    (t.dir / "hf/onnx/model.onnx").write_bytes(onnx or text_model.model(W))


def a_long_text_becomes_windows_that_are_put_together(t):
    """Vectors are the mean of those of the windows; without that step all are given, with the text and the place of each."""
    tokenize = {**TOKENIZE, "truncate": {"max": 5, "side": "right", "stride": 1}, "out": {**TOKENIZE["out"], "texts": "of", "offsets": "where"}}
    windows = [[2, 12, 13, 14, 3], [2, 14, 12, 13, 3], [2, 13, 14, 3], [2, 4, 5, 3], [2, 3]]  # of three texts
    given = ["-i", "text=a b c a b c", "-i", "text=Hello world", "-i", "text="]
    pooled = []
    for ids in windows:
        kept = text_model.hidden(W, ids, [0]*len(ids), [1]*len(ids))
        pooled.append([sum(column)/len(ids) for column in zip(*kept)])
    pool = {**POOL, "out": "pooled"}
    build(t, described([tokenize, RUN, pool], ["pooled", "of", "where"]))
    for variant in variants(t):
        found = outputs(t, *given, "--variant", variant)
        near(rows(found["pooled"]), pooled)
        assert found["of"]["data"] == [0, 0, 0, 1, 2], found["of"]
        assert found["where"]["shape"] == [5, 5, 2] and found["where"]["data"][10:20] == [0, 0, 4, 5, 6, 7, 8, 9, 0, 0], found["where"]
    tokenize["out"].pop("offsets")
    joined = [[sum(column)/3 for column in zip(*pooled[:3])], *pooled[3:]]
    lengths = [math.sqrt(sum(v*v for v in row)) for row in joined]
    build(t, described([tokenize, RUN, pool, {"op": "join_windows", "of": "of", "how": "mean"}, UNIT]))
    for variant in variants(t):
        near(rows(outputs(t, *given, "--variant", variant)["embedding"]), [[v/length for v in row] for row, length in zip(joined, lengths)])
    build(t, described([tokenize, RUN, pool, {"op": "join_windows", "of": "of", "how": "max", "out": "embedding"}]))
    near(rows(outputs(t, *given)["embedding"]), [[max(column) for column in zip(*pooled[:3])], *pooled[3:]])
    for wrong, found in (("mask", "i64[?, ?]"), ("pooled", "f32[?, 8]")):
        files(t, described([tokenize, RUN, pool, {"op": "join_windows", "in": "pooled", "of": "of", "how": "mean", "out": "embedding"},
                            {"op": "join_windows", "in": "embedding", "of": wrong, "how": "mean", "out": "x"}], ["embedding", "x"]))
        done = t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "-o", "m.mlc", code=2)
        assert f"the texts of windows i64 [windows], which 'tokenize' makes, as 'of', '{wrong}' is {found}" in done.stderr, done.stderr


def a_folder_of_sentence_transformers(t):
    folder(t)
    t.run("mlpack", "check", "hf")
    built = t.json("mlpack", "build", "hf", "--target", "native", "-o", "m.mlc")
    assert built["selftest"]["vectors"] == 5, built
    near(rows(outputs(t, *[a for text in IDS for a in ("-i", f"text={text}")])["embedding"]), [expected(text) for text in IDS])
    found = t.json("mlpack", "inspect", "m.mlc")
    assert found["model"]["id"] == "local/hf" if "model" in found else True, found
    # Fixed sizes, small integers, no norm.
    folder(t, text_model.model(W, "i32", (1, 6)), modules=[{"path": "", "type": "Transformer"}, {"path": "1_Pooling", "type": "Pooling"}],
           **{"1_Pooling__config": {"pooling_mode_cls_token": True}})
    t.run("mlpack", "build", "hf/", "--target", "native", "-o", "m.mlc")
    near(rows(outputs(t, "-i", "text=Hello world")["embedding"]), [text_model.hidden(W, [2, 4, 5, 3], [0] * 4, [1] * 4)[0]])


def a_prompt_stands_before_each_text(t):
    prompted = {"default_prompt_name": "query", "prompts": {"query": "Hello ", "passage": "a "}}
    folder(t, config_sentence_transformers=prompted)
    t.run("mlpack", "build", "hf", "--target", "native", "-o", "m.mlc")
    near(rows(outputs(t, "-i", "text=world")["embedding"]), [expected("Hello world")])
    folder(t, config_sentence_transformers={**prompted, "default_prompt_name": None})
    t.run("mlpack", "build", "hf", "--target", "portable", "-o", "m.mlc")
    near(rows(outputs(t, "-i", "text=Hello world")["embedding"]), [expected("Hello world")])
    # Of a pair it stands before the first one.
    pair = {**TOKENIZE, "in": {"first": "a", "second": "b"}, "truncate": "none", "prompt": "Hello ", "out": {"ids": "ids"}}
    build(t, described([pair, {"op": "dtype", "in": "ids", "to": "i32", "out": "numbers"}], ["numbers"], ["a", "b"]), target="portable")
    assert rows(outputs(t, "-i", "a=world", "-i", "b=world")["numbers"]) == [[2, 4, 5, 3, 5, 3]]


def positions_are_counted_where_the_mask_is(t):
    for side, wanted in (("right", [[0, 1, 2, 3, 0, 0], [0, 1, 2, 3, 4, 0]]), ("left", [[0, 0, 0, 1, 2, 3], [0, 0, 1, 2, 3, 4]])):
        step = {**TOKENIZE, "truncate": {"max": 6, "side": "right"}, "pad": {"to": 6, "side": side, "id": 0}, "out": {"position_ids": "places"}}
        build(t, described([step, {"op": "dtype", "in": "places", "to": "i32", "out": "numbers"}], ["numbers"]), target="portable")
        assert rows(outputs(t, "-i", "text=Hello world", "-i", "text=a b c")["numbers"]) == wanted, side


def a_folder_in_the_cache_of_a_hub(t):
    folder(t)
    revision, blobs = t.dir / "hub/snapshots/r1", t.dir / "hub/blobs"
    blobs.mkdir(parents=True)
    shutil.copytree(t.dir / "hf", revision)
    (revision / "tokenizer.json").rename(blobs / "0123")
    (revision / "tokenizer.json").symlink_to("../../blobs/0123")
    t.run("mlpack", "build", "hub/snapshots/r1", "--target", "portable", "-o", "m.mlc")
    (blobs / "0123").rename(t.dir / "elsewhere.json")  # a link to any other place
    (revision / "tokenizer.json").unlink()
    (revision / "tokenizer.json").symlink_to("../../../elsewhere.json")
    assert "E5004" in t.run("mlpack", "build", "hub/snapshots/r1", "--target", "portable", "-o", "m.mlc", code=2).stderr


def a_folder_of_a_classifier(t):
    labels = {"id2label": {"0": "bad", "1": "so so", "2": "good"}, "pad_token_id": 0, "max_position_embeddings": 8}
    folder(t, text_model.model(W, head=3), modules=None, config=labels, sentence_bert_config=None)
    t.run("mlpack", "build", "hf", "--target", "native", "-o", "m.mlc")
    answer = outputs(t, "-i", "text=Hello world")["classes"]
    assert {c["label"] for c in answer} == {"bad", "so so", "good"} and abs(sum(c["score"] for c in answer) - 1) < 1e-5, answer
    folder(t, text_model.model(W, head=3), modules=None, config={**labels, "problem_type": "multi_label_classification"})
    t.run("mlpack", "build", "hf", "--target", "portable", "-o", "m.mlc")
    assert abs(sum(c["score"] for c in outputs(t, "-i", "text=Hello world")["classes"]) - 1) > 1e-3


def a_folder_pools_in_other_ways(t):
    modules = [{"path": "", "type": "Transformer"}, {"path": "1_Pooling", "type": "Pooling"}]
    hidden = text_model.hidden(W, IDS["Hello world"], [0] * 4, [1] * 4)
    for key, wanted in (("pooling_mode_weightedmean_tokens", weighted_mean(hidden)), ("pooling_mode_mean_sqrt_len_tokens", [sum(c) / 2 for c in zip(*hidden)])):
        folder(t, modules=modules, **{"1_Pooling__config": {key: True}})
        t.run("mlpack", "build", "hf", "--target", "native", "-o", "m.mlc")
        near(rows(outputs(t, "-i", "text=Hello world")["embedding"]), [wanted])


def a_folder_of_a_model_that_ranks(t):
    """One label: pairs of texts, and a score of each."""
    config = {"id2label": {"0": "LABEL_0"}, "pad_token_id": 0, "max_position_embeddings": 6}
    onnx = text_model.model(W, head=1)
    folder(t, onnx, modules=None, config=config, sentence_bert_config=None)
    t.run("mlpack", "build", "hf", "--target", "native", "-o", "m.mlc")
    pairs = [("a", "b c", [2, 12, 3, 13, 14, 3]), ("a", "b b b b b", [2, 12, 3, 13, 13, 3])]  # cut to the shorter length of both
    logits = []
    for _, _, ids in pairs:
        hidden = text_model.hidden(W, ids, [0] * 3 + [1] * 3, [1] * 6)
        mean = [sum(c) / len(hidden) for c in zip(*hidden)]
        logits.append(sum(v * row[0] for v, row in zip(mean, W.mix)))
    args = [a for query, text, _ in pairs for a in ("-i", f"query={query}", "-i", f"text={text}")]
    for variant in variants(t):
        near(rows(outputs(t, *args, "--variant", variant)["score"]), [[1 / (1 + math.exp(-v))] for v in logits])
    # The example is what is made of such a folder.
    shutil.copy(t.dir / "hf/tokenizer.json", t.dir)
    text = (RERANK / "pipeline.json").read_text().replace('"max": 512', '"max": 6')
    (t.dir / "pipeline.json").write_text(text)
    t.run("mlpack", "build", "hf/onnx/model.onnx", "--pipeline", "pipeline.json", "--target", "native", "-o", "m.mlc")
    near(rows(outputs(t, *args)["score"]), [[1 / (1 + math.exp(-v))] for v in logits])
    for own in ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
                {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}, "problem_type": "regression"}):
        folder(t, onnx, modules=None, config={**config, **own}, sentence_bert_config=None)
        t.run("mlpack", "build", "hf", "--target", "native", "-o", "m.mlc")
        near(rows(outputs(t, *args)["score"]), [[v] for v in logits])
    for own, sentence in (({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}},
                           "config.json: 'sentence_transformers.activation_fn' is 'torch.nn.modules.activation.Tanh', expected Sigmoid or Identity"),
                          ({"sbert_ce_default_activation_function": 1}, "'sbert_ce_default_activation_function' is '', expected Sigmoid or Identity"),
                          ({"problem_type": "regression"}, "config.json: 'problem_type' is regression")):
        folder(t, onnx, modules=None, config={**config, **own})
        assert sentence in t.run("mlpack", "build", "hf", "--target", "portable", "-o", "m.mlc", code=2).stderr, sentence
    folder(t, modules=None, config=config)
    assert "the model does not give 'logits'" in t.run("mlpack", "build", "hf", "--target", "portable", "-o", "m.mlc", code=2).stderr


def safetensors(arrays, **changes):
    """name: (type, rows of numbers); `changes` replace keys of the first array's entry."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (kind, rows) in arrays.items():
        flat = [v for row in rows for v in row] if isinstance(rows[0], list) else rows
        packed = b"".join(struct.pack("<f", v)[2:] if kind == "BF16" else struct.pack({"F32": "<f", "F16": "<e", "F64": "<d"}[kind], v) for v in flat)
        shape = [len(rows), len(rows[0])] if isinstance(rows[0], list) else [len(rows)]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)], **changes}
        changes, data = {}, data + packed
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def layers(t, *given, normal=True):
    """A folder with these layers behind the mean: (activation, type, rows of weights, bias)."""
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), *((f"{k + 2}_Dense", "Dense") for k in range(len(given)))] + [("9_Normalize", "Normalize")]*normal
    described = {"modules": [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind} for i, (path, kind) in enumerate(modules)]}
    for k, (activation, _, weight, bias) in enumerate(given):
        described[f"{k + 2}_Dense__config"] = {"in_features": len(weight[0]), "out_features": len(weight), "bias": bias is not None,
                                               "activation_function": "torch.nn.modules." + activation}
    folder(t, **described)
    for k, (_, kind, weight, bias) in enumerate(given):
        (t.dir / f"hf/{k + 2}_Dense/model.safetensors").write_bytes(
            safetensors({"linear.weight": (kind, weight)} | ({"linear.bias": (kind, bias)} if bias is not None else {})))


def numbers_like(rows, columns, seed):
    """Multiples of 1/64, which all types hold."""
    state, out = seed, []
    for _ in range(rows):
        out.append([])
        for _ in range(columns):
            state = (state*1103515245 + 12345) % (1 << 31)
            out[-1].append(((state >> 16) % 129 - 64)/64)
    return out


def a_folder_has_dense_layers(t):
    acts = {"activation.Tanh": math.tanh, "linear.Identity": lambda v: v, "activation.ReLU": lambda v: max(v, 0.0), "activation.Sigmoid": lambda v: 1/(1 + math.exp(-v)),
            "activation.GELU": lambda v: v*(1 + math.erf(v/math.sqrt(2)))/2, "activation.SiLU": lambda v: v/(1 + math.exp(-v))}
    given = ["-i", "text=Hello world", "-i", "text=", "-i", "text=a b c"]
    texts = [[2, 4, 5, 3], [2, 3], [2, 12, 13, 14, 3]]

    def mean(ids):
        kept = text_model.hidden(W, ids, [0]*len(ids), [1]*len(ids))
        return [sum(column)/len(ids) for column in zip(*kept)]

    def expected_of(given_layers, normal):
        out = []
        for row in map(mean, texts):
            for activation, _, weight, bias in given_layers:
                row = [acts[activation](sum(a*b for a, b in zip(row, w)) + (bias[k] if bias else 0)) for k, w in enumerate(weight)]
            length = math.sqrt(sum(v*v for v in row)) if normal else 1
            out.append([v/length for v in row])
        return out
    first = ("activation.Tanh", "F32", numbers_like(5, 8, 3), numbers_like(1, 5, 4)[0])
    for given_layers, normal in (([first], True), ([first, ("linear.Identity", "BF16", numbers_like(11, 5, 5), None)], False), *(
            ([(name, "F16", numbers_like(4, 8, 6), numbers_like(1, 4, 7)[0])], False) for name in acts)):
        layers(t, *given_layers, normal=normal)
        t.run("mlpack", "check", "hf")
        t.run("mlpack", "build", "hf", "--target", "native", "-o", "m.mlc")
        near(rows(outputs(t, *given)["embedding"]), expected_of(given_layers, normal))
        near(rows(outputs(t, *given, "--variant", "portable")["embedding"]), expected_of(given_layers, normal))
    # Another layer is another source.
    digest = t.json("mlpack", "inspect", "m.mlc")["model"]["source"]["digest"]
    layers(t, (*first[:3], numbers_like(1, 5, 5)[0]))
    t.run("mlpack", "build", "hf", "--target", "native", "-o", "m.mlc")
    assert t.json("mlpack", "inspect", "m.mlc")["model"]["source"]["digest"] != digest


def what_a_dense_layer_says_that_is_not_understood(t):
    weight, config = numbers_like(5, 8, 3), {"in_features": 8, "out_features": 5, "bias": False, "activation_function": "torch.nn.modules.activation.Tanh"}
    good = safetensors({"linear.weight": ("F32", weight)})
    cases = [
        (config, None, "2_Dense has its numbers as pytorch_model.bin, which is a program that runs when it is read"),
        ({**config, "novel": 1}, good, "2_Dense/config.json: 'novel' is not understood"),
        ({**config, "activation_function": "torch.nn.modules.activation.Mish"}, good, "'activation_function' is 'torch.nn.modules.activation.Mish', expected Identity"),
        ({**config, "activation_function": "my.Tanh"}, good, "'activation_function' is 'my.Tanh'"),
        ({**config, "in_features": 0}, good, "'in_features' is missing, or not between 1 and 65536"),
        ({**config, "module_output_name": "other"}, good, "'module_output_name' is not 'sentence_embedding'"),
        ({**config, "bias": True}, good, "has no array 'linear.bias'"),
        ({**config, "out_features": 4}, good, "has 'linear.weight' in another shape than config.json says"),
        (config, safetensors({"linear.weight": ("F32", weight), "linear.bias": ("F32", weight[0][:5])}), "'bias' is false, and model.safetensors has a 'linear.bias'"),
        (config, safetensors({"linear.weight": ("F64", weight)}), "has 'linear.weight' as 'F64', expected F32, F16 or BF16"),
        (config, safetensors({"linear.weight": ("F32", weight)}, data_offsets=[0, 164]), "at a place outside of the file"),
        (config, safetensors({"linear.weight": ("F32", weight)}, data_offsets=[-160, 0]), "at a place outside of the file"),
        (config, safetensors({"linear.weight": ("F32", weight)}, data_offsets=[0, 156]), "of another size than its shape"),
        (config, safetensors({"linear.weight": ("F32", weight)}, shape=["8"]), "has something in 'shape' of 'linear.weight' that is no whole number"),
        (config, good[:7], "is no file of safetensors: it has 7 bytes"),
        (config, b"\xff"*8 + good[8:], "is no file of safetensors: its header would have 18446744073709551615 bytes"),
        (config, good[:-1], "at a place outside of the file"),
    ]
    modules = [{"path": "", "type": "Transformer"}, {"path": "1_Pooling", "type": "Pooling"}, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
    for described_as, file, sentence in cases:
        folder(t, modules=modules, **{"2_Dense__config": described_as})
        (t.dir / "hf/2_Dense/pytorch_model.bin").write_bytes(b"")
        (t.dir / "hf/2_Dense/model.safetensors").unlink(missing_ok=True)
        if file is not None:
            (t.dir / "hf/2_Dense/model.safetensors").write_bytes(file)
        done = t.run("mlpack", "build", "hf", "--target", "portable", "-o", "m.mlc", code=2)
        assert sentence in done.stderr, (sentence, done.stderr)
    folder(t, modules=[*modules[:2], {"path": "2_Normalize", "type": "Normalize"}, modules[2]], **{"2_Dense__config": config})
    assert "'[3].type' is 'sentence_transformers.models.Dense' in this place" in t.run("mlpack", "check", "hf", code=2).stderr


def what_a_folder_says_that_is_not_understood(t):
    good = [{"path": "", "type": "Transformer"}, {"path": "1_Pooling", "type": "Pooling"}]
    cases = [
        ({"1_Pooling__config": {"pooling_mode_mean_tokens": True, "novel": 1}}, "1_Pooling/config.json: 'novel' is not understood"),
        ({"1_Pooling__config": {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}}, "beside another one"),
        ({"modules": [*good, {"path": "2_CNN", "type": "sentence_transformers.models.CNN"}]}, "modules.json: '[2].type' is 'sentence_transformers.models.CNN'"),
        ({"modules": [*good, {"path": "../x", "type": "Dense"}]}, "the path of Dense is '../x'"),
        ({"modules": [good[0], {"path": "../x", "type": "Pooling"}]}, "the path of Pooling is '../x'"),
        ({"sentence_bert_config": {"max_seq_length": 8, "do_lower_case": True}}, "sentence_bert_config.json: 'do_lower_case' is true"),
        ({"sentence_bert_config": {"max_seq_length": -5}}, "'max_seq_length' is below 1"),
        ({"config": {}}, "config.json: 'pad_token_id' is missing"),
        ({"config_sentence_transformers": {"default_prompt_name": "query"}}, "'default_prompt_name' is 'query', which 'prompts' does not have"),
        ({"config_sentence_transformers": {"default_prompt_name": "q", "prompts": {"q": "x "}},
          "1_Pooling__config": {"pooling_mode_mean_tokens": True, "include_prompt": False}},
         "1_Pooling/config.json: 'include_prompt' is false beside a prompt"),
        ({"tokenizer_config": {"padding_side": "top"}}, "tokenizer_config.json: 'padding_side' is neither"),
        ({"modules": None}, "config.json: 'id2label' does not name classes"),
        ({"tokenizer": None}, "has no tokenizer.json"),
    ]
    for files, sentence in cases:
        folder(t, **files)
        done = t.run("mlpack", "build", "hf", "--target", "portable", "-o", "m.mlc", code=(2, 3))
        assert sentence in done.stderr, (sentence, done.stderr)
    (t.dir / "empty").mkdir()
    done = t.run("mlpack", "build", "empty", "--target", "portable", "-o", "m.mlc", code=3)
    assert "without model.onnx and onnx/model.onnx" in done.stderr, done.stderr


def mistakes_are_told_with_their_place(t):
    steps = [TOKENIZE, RUN, POOL, UNIT]

    def without(step, key):
        return {k: v for k, v in step.items() if k != key}
    cases = [
        ([without(TOKENIZE, "tokenizer"), *steps[1:]], "lacks 'tokenizer' (a string)"),
        ([without(TOKENIZE, "truncate"), *steps[1:]], "lacks 'truncate'"),
        ([{**TOKENIZE, "truncate": {"max": 0, "side": "right"}}, *steps[1:]], "'max' of 'truncate' is 0, expected 1 to"),
        ([{**TOKENIZE, "truncate": {"max": 8, "side": "right", "cut": "first"}}, *steps[1:]], "unknown key 'cut' in 'truncate'"),
        ([{**TOKENIZE, "truncate": 8}, *steps[1:]], "'truncate' of step 'tokenize' is neither"),
        ([{**TOKENIZE, "pad": {"to": 4, "side": "right", "id": 0}}, *steps[1:]], "a text may have more tokens"),
        ([{**TOKENIZE, "pad": {"to": "longset", "side": "right", "id": 0}}, *steps[1:]], "'to' of 'pad' is none of"),
        ([{**TOKENIZE, "out": {"ids": "ids", "masks": "mask", "type_ids": "types"}}, *steps[1:]], "unknown key 'masks' in 'out' of tokenize, did you mean 'mask'"),
        ([{**TOKENIZE, "in": "txt"}, *steps[1:]], "no value 'txt' before this, did you mean 'text'"),
        ([{**TOKENIZE, "in": {"first": "text"}}, *steps[1:]], "'in' of tokenize lacks 'second'"),
        ([TOKENIZE, RUN, {**POOL, "how": "median"}, UNIT], "'how' of step 'pool' is 'median'"),
        ([TOKENIZE, RUN, without(POOL, "mask"), UNIT], "step 'pool' lacks 'mask'"),
        ([TOKENIZE, RUN, {**POOL, "in": "text"}, UNIT], "step 'pool' takes an array, 'text' is a text"),
        ([TOKENIZE, RUN, POOL, {**UNIT, "norm": "l1"}], "'norm' of step 'normalize' is 'l1'"),
        ([TOKENIZE, RUN, POOL, {**UNIT, "div": 2}], "unknown key 'div'"),
        ([TOKENIZE, RUN, POOL, {"op": "truncate", "columns": 9}, UNIT], "step 'truncate' keeps 9 columns"),
        ([TOKENIZE, {**RUN, "out": {"last_hidden_state": "hidden"}}, POOL, {"op": "top_k", "k": 1, "labels": "tokenizer.json", "out": "embedding"}],
         "is a tokenizer in one step and a list in another"),
        ([TOKENIZE, RUN, POOL, {"op": "detokenize", "tokenizer": "tokenizer.json", "skip_special": True, "out": "embedding"}],
         "step 'detokenize' takes integers [tokens] or [texts, tokens]"),
    ]
    for wrong, sentence in cases:
        files(t, described(wrong))
        done = t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "--target", "portable", "-o", "m.mlc", code=2)
        assert sentence in done.stderr, (sentence, done.stderr)
        assert "p.json:1:" in done.stderr, done.stderr


def tokenizers_that_cannot_be_compiled(t):
    good = json.loads(text_model.tokenizer())
    pipeline = described([TOKENIZE, RUN, POOL, UNIT])
    cases = [("{", "tokenizer.json"), (json.dumps({**good, "normalizer": {"type": "Novel"}}), "$.normalizer"),
             (json.dumps({**good, "model": {**good["model"], "vocab": {"a": -1}}}), "$.model.vocab")]
    for text, sentence in cases:
        files(t, pipeline, tokenizer=text)
        done = t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "--target", "portable", "-o", "m.mlc", code=(2, 4, 20))
        assert sentence in done.stderr and "p.json:1:" in done.stderr, done.stderr
    (t.dir / "tokenizer.json").unlink()
    done = t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "--target", "portable", "-o", "m.mlc", code=3)
    assert "E1003" in done.stderr and "tokenizer.json" in done.stderr, done.stderr
    # A tokenizer of more words than the model has rows.
    files(t, pipeline, tokenizer=text_model.tokenizer(text_model.WORDS + ["every", "machine"]))
    done = t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "--target", "portable", "-o", "m.mlc", code=(5, 6, 8, 9, 20))
    assert "golden vector" in done.stderr, done.stderr


if __name__ == "__main__":
    main([a_long_text_becomes_windows_that_are_put_together, a_folder_has_dense_layers, what_a_dense_layer_says_that_is_not_understood, a_prompt_stands_before_each_text, positions_are_counted_where_the_mask_is,
          texts_become_embeddings_in_every_variant, texts_of_like_length_run_together, a_text_may_be_a_file, lines_nearest_to_a_text,
          what_embed_refuses, two_texts_are_a_pair, each_way_to_pool_and_cut,
          a_model_of_fixed_sizes_and_small_integers, numbers_become_texts, the_example_is_a_pipeline_of_this_form,
          a_folder_of_sentence_transformers, a_folder_in_the_cache_of_a_hub,
          a_folder_of_a_classifier, a_folder_pools_in_other_ways, a_folder_of_a_model_that_ranks, what_a_folder_says_that_is_not_understood,
          mistakes_are_told_with_their_place, tokenizers_that_cannot_be_compiled])
