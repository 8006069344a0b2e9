"""A model of the form of BERT, one layer and a few numbers, its tokenizer, and what it answers, computed here."""
import json
import math
import random
import struct

import onnx_file

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "world", "text", "un", "##aff", "##able", ",", ".", "a", "b", "c"]
WIDTH = 8


def tokenizer(words=WORDS):
    """The tokenizer.json of a WordPiece model over these words."""
    ids = {w: i for i, w in enumerate(words)}
    special = [{"id": i, "content": words[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i in range(4)]

    def piece(kind, name, type_id):
        return {kind: {"id": name, "type_id": type_id}}
    single = [piece("SpecialToken", "[CLS]", 0), piece("Sequence", "A", 0), piece("SpecialToken", "[SEP]", 0)]
    pair = single + [piece("Sequence", "B", 1), piece("SpecialToken", "[SEP]", 1)]
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": pair,
                           "special_tokens": {w: {"id": w, "ids": [ids[w]], "tokens": [w]} for w in ("[CLS]", "[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": ids}})


class Weights:
    def __init__(self, words=len(WORDS), width=WIDTH, seed=7):
        draw = random.Random(seed)

        def matrix(rows, columns):
            return [[struct.unpack("<f", struct.pack("<f", draw.uniform(-1, 1)))[0] for _ in range(columns)] for _ in range(rows)]
        self.width = width
        self.words, self.types, self.mix = matrix(words, width), matrix(2, width), matrix(width, width)


def model(weights, dtype="i64", extents=("batch", "tokens"), head=0):
    """Inputs input_ids, attention_mask, token_type_ids; output last_hidden_state, or with `head` logits of so many classes."""
    def initializer(name, rows):
        return onnx_file.tensor(name, "f32", [len(rows), len(rows[0])], b"".join(struct.pack("<f", v) for row in rows for v in row))
    node = onnx_file.node
    nodes = [
        node("Gather", ["words", "input_ids"], ["word"]), node("Gather", ["types", "token_type_ids"], ["type"]), node("Add", ["word", "type"], ["h"]),
        node("MatMul", ["h", "mix"], ["q"]), node("Transpose", ["h"], ["k"], perm=[0, 2, 1]), node("MatMul", ["q", "k"], ["scores"]),
        node("Cast", ["attention_mask"], ["kept"], to=1), node("Unsqueeze", ["kept", "one"], ["row"]), node("Sub", ["unit", "row"], ["off"]),
        node("Mul", ["off", "far"], ["bias"]), node("Add", ["scores", "bias"], ["masked"]), node("Softmax", ["masked"], ["p"], axis=-1),
        node("MatMul", ["p", "h"], ["mixed"]), node("Add", ["h", "mixed"], ["last_hidden_state"])]
    initializers = [initializer("words", weights.words), initializer("types", weights.types), initializer("mix", weights.mix),
                    onnx_file.tensor("one", "i64", [1], struct.pack("<q", 1)), onnx_file.tensor("unit", "f32", [], struct.pack("<f", 1)),
                    onnx_file.tensor("far", "f32", [], struct.pack("<f", -1e4))]
    output = onnx_file.port("last_hidden_state", "f32", [*extents, weights.width])
    if head:
        nodes += [node("ReduceMean", ["last_hidden_state"], ["mean"], axes=[1], keepdims=0), node("MatMul", ["mean", "head"], ["logits"])]
        initializers.append(initializer("head", [row[:head] for row in weights.mix]))
        output = onnx_file.port("logits", "f32", [extents[0], head])
    inputs = [onnx_file.port(name, dtype, extents) for name in ("input_ids", "attention_mask", "token_type_ids")]
    return onnx_file.model(nodes, inputs, [output], initializers)


def hidden(weights, ids, types, mask):
    """last_hidden_state of one text, in double."""
    width = range(weights.width)
    h = [[weights.words[i][c] + weights.types[t][c] for c in width] for i, t in zip(ids, types)]
    q = [[sum(row[k] * weights.mix[k][c] for k in width) for c in width] for row in h]
    out = []
    for s, row in enumerate(q):
        scores = [sum(row[c] * other[c] for c in width) + (1 - m) * -1e4 for other, m in zip(h, mask)]
        weight = [math.exp(v - max(scores)) for v in scores]
        out.append([h[s][c] + sum(w * other[c] for w, other in zip(weight, h)) / sum(weight) for c in width])
    return out


def embedding(weights, ids, types, mask, columns=None):
    """The mean over the mask, cut to its first columns, of length 1."""
    kept = [row for row, m in zip(hidden(weights, ids, types, mask), mask) if m]
    mean = [sum(row[c] for row in kept) / len(kept) if kept else 0 for c in range(weights.width)][:columns]
    length = max(math.sqrt(sum(v * v for v in mean)), 1e-12)
    return [v / length for v in mean]
