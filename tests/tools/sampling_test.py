"""Tokens that are drawn by chance: what the specification says of them, written down here once more."""
import json
import math
import struct

from onnx_file import model, node, port, tensor
from tool_test import main

MASK = (1 << 64) - 1


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def word(number, row, seed):
    """The first of the four words of Philox4x32-10."""
    counter, (k, l), low = [number, row, 0, 0], (seed & 0xffffffff, seed >> 32 & 0xffffffff), 0xffffffff
    for _ in range(10):
        a, b = 3449720151*counter[2], 3528531795*counter[0]
        counter = [a >> 32 ^ counter[1] ^ k, a & low, b >> 32 ^ counter[3] ^ l, b & low]
        k, l = k + 2654435769 & low, l + 3144134277 & low
    return counter[0]


def drawn(logits, number, seed, temperature, top_k=0, top_p=1.0, row=0):
    z = [-math.inf if math.isnan(v) else f32(f32(v) / f32(temperature)) for v in logits]
    most = max(z)
    weights = [1 << 22 if v == most else round(f32(f32(math.exp(v - most))*(1 << 22))) for v in z]
    order = sorted(range(len(z)), key=lambda i: (-z[i], i))[:top_k or len(z)]
    total, before, kept = sum(weights[i] for i in order), 0, set()
    for i in order:
        if before << 20 < total*round(top_p*(1 << 20)):
            kept.add(i)
        before += weights[i]
    sums, part = [], 0
    for i, weight in enumerate(weights):
        part += weight if i in kept else 0
        sums.append(part)
    chosen = word(number, row, seed)*part >> 32
    return sum(s <= chosen for s in sums)


def table(tokens, seed=3):
    rows, state = [], seed
    for _ in range(tokens):
        rows.append([])
        for _ in range(tokens):
            state = (state*1103515245 + 12345) % (1 << 31)
            rows[-1].append(((state >> 16) % 65 - 32)/8)
    return rows


def build(t, rows, sample, most=24, code=0):
    """The logits of a token are a row of the table."""
    tokens = len(rows)
    data = b"".join(struct.pack("<f", v) for row in rows for v in row)
    (t.dir / "m.onnx").write_bytes(model([node("Gather", ["table", "ids"], ["logits"])], [port("ids", "i64", ["b", "n"])], [port("logits", "f32", ["b", "n", tokens])],
                                         [tensor("table", "f32", [tokens, tokens], data)]))
    inputs = {"ids": {"accept": ["application/x-npy"]}} | ({"seed": {"accept": ["application/x-npy"]}} if sample.get("seed") == "seed" else {})
    step = {"op": "generate", "program": "main", "in": {"ids": "ids"}, "tokens": "ids", "logits": "logits", "end": [tokens - 1], "max": most, "sample": sample, "out": "made"}
    (t.dir / "p.json").write_text(json.dumps({"mlc_pipeline": 1, "inputs": inputs, "steps": [step], "outputs": ["made"]}))
    return t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "-o", "m.mlc", "--target", "native,portable", code=code)


def made(t, *args):
    return t.json("mlrun", "run", "m.mlc", *args, stderr=None)["outputs"]["made"]["data"]


def expected(rows, token, seed, sample, most=24, row=0):
    keys, out = {k: v for k, v in sample.items() if k != "seed"}, []
    while len(out) < most:
        token = drawn(rows[token], len(out), seed & MASK, **keys, row=row)
        out.append(token)
        if token == len(rows) - 1:
            break
    return out


def tokens_are_drawn_as_the_specification_says(t):
    rows = table(23)
    for keys in ({"temperature": 1}, {"temperature": 0.7, "top_k": 5}, {"temperature": 1.5, "top_p": 0.6}, {"temperature": 0.9, "top_k": 9, "top_p": 0.75},
                 {"temperature": 0.001}, {"temperature": 3, "top_k": 1}, {"temperature": 2, "top_k": 1000}):
        sample = {**keys, "seed": "seed"}
        build(t, rows, sample)
        runs = []
        for seed in (0, 1, 7, 123456789012345, -3):
            want = expected(rows, 4, seed, sample)
            runs.append(tuple(want))
            for variant in ((), ("--variant", "portable")):
                found = made(t, "-i", "ids=3,4", "-i", f"seed={seed}", *variant)
                assert found == want, (sample, seed, variant, found, want)
        assert len(set(runs)) > 1 or keys["temperature"] == 0.001 or keys.get("top_k") == 1, runs
    build(t, rows, {"temperature": 1, "seed": 7})
    assert made(t, "-i", "ids=4") == expected(rows, 4, 7, {"temperature": 1})


def each_row_of_a_batch_draws_for_itself(t):
    rows, sample = table(9), {"temperature": 1.5, "top_k": 7, "top_p": 0.9, "seed": 5}
    build(t, rows, sample)
    (t.dir / "ids").write_bytes(struct.pack("<8q", 1, 4, 2, 4, 3, 4, 3, 2))
    for variant in ((), ("--variant", "portable")):
        found = t.json("mlrun", "run", "m.mlc", "-i", "ids=@ids:i64[4,2]", *variant, stderr=None)["outputs"]["made"]
        want = [expected(rows, token, 5, sample, row=row) for row, token in enumerate((4, 4, 4, 2))]
        longest = max(map(len, want))
        assert found["shape"] == [4, longest] and found["data"] == [v for row in want for v in row + [8]*(longest - len(row))], (found, want)
        assert len({tuple(row) for row in want}) > 1, want


def numbers_that_are_none_are_never_drawn(t):
    rows = [[math.nan, 1.0, -math.inf, 1.0, math.nan, 0.5], [1.0, math.inf, 2.0, math.inf, 0.0, math.nan], [math.nan]*6, [-math.inf]*6, [0.0, -0.0, 0.0, -0.0, 0.0, -1.0], [0.0]*6]
    for sample in ({"temperature": 1, "seed": "seed"}, {"temperature": 2, "top_k": 2, "top_p": 0.9, "seed": "seed"}):
        build(t, rows, sample, most=2)
        for token in range(6):
            for seed in range(5):
                want = expected(rows, token, seed, sample, most=2)
                assert made(t, "-i", f"ids={token}", "-i", f"seed={seed}") == want, (sample, token, seed, want)
                assert token not in (0, 1) or want[0] in (1, 3, 5), want


def tokens_are_as_often_as_their_weights(t):
    """Of 4000 tokens each is as often as it should be, five standard deviations at most."""
    weights = [0.5, 0.25, 0.125, 0.125]
    rows = [[*(math.log(w) for w in weights), -1e9] for _ in range(5)]
    build(t, rows, {"temperature": 1, "seed": "seed"}, most=4000)
    found = made(t, "-i", "ids=0", "-i", "seed=11")
    assert len(found) == 4000
    for token, weight in enumerate(weights):
        assert abs(found.count(token) - 4000*weight) < 5*math.sqrt(4000*weight*(1 - weight)), (token, found.count(token))


def what_does_not_fit_is_said(t):
    rows = table(4)
    for sample, sentence in (({"temperature": 0, "seed": 1}, "'temperature' of 'sample' of generate is not between 0.001 and 1000"), ({"temperature": 1}, "seed"),
                             ({"temperature": 1, "seed": 1, "top_p": 0}, "'top_p' of 'sample' of generate is not between 2^-20 and 1"), ({"temperature": 1, "seed": "sed"}, "no value 'sed' before this"),
                             ({"temperature": 1, "seed": 1, "topk": 3}, "unknown key 'topk'"), ({"temperature": 1, "seed": 1.5}, "seed"), ("often", "'sample'")):
        (t.dir / "w").mkdir(exist_ok=True)
        if sample == "often":
            build(t, rows, {"temperature": 1, "seed": 1})
            text = json.loads((t.dir / "p.json").read_text())
            text["steps"][0]["sample"] = sample
            (t.dir / "p.json").write_text(json.dumps(text))
            done = t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "-o", "m.mlc", code=2)
        else:
            done = build(t, rows, sample, code=2)
        assert sentence in done.stderr, (sentence, done.stderr)
    build(t, rows, {"temperature": 1, "seed": "seed"})
    assert "'seed' is i64[1], and 2 numbers are given" in t.run("mlrun", "m.mlc", "-i", "ids=1", "-i", "seed=1,2", code=6).stderr
    assert "seed   missing" in t.run("mlrun", "m.mlc", "-i", "ids=1", code=6).stderr


if __name__ == "__main__":
    main([tokens_are_drawn_as_the_specification_says, each_row_of_a_batch_draws_for_itself, numbers_that_are_none_are_never_drawn, tokens_are_as_often_as_their_weights, what_does_not_fit_is_said])
