"""Sentences to embeddings, and what ONNX Runtime with `tokenizers` takes for them, in turns, in one process, from Python.

    python3 bench/texts.py MODEL.onnx --bin build/release/bin [--threads N] [--rounds N]

MODEL is of the form of BERT: input_ids, attention_mask and perhaps token_type_ids [batch, sequence] to one array, [batch, sequence, width] or [batch, width]. Needs
numpy, onnxruntime, tokenizers and the wheel `mlrt`. The tokenizer is trained on the texts of this Debian system, and the sentences are sentences of them. ONNX Runtime runs as its users write it
(a batch filled up to its longest text, mean and norm in NumPy) and, of lists longer than a batch, as sentence-transformers does (sorted by length, in batches of 32).
Prints minimum and median of each in ms, and how far the answers are apart.
"""
import argparse
import gzip
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import mlrt  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime as ort  # noqa: E402
import tokenizers  # noqa: E402
from turns import in_turns  # noqa: E402

FOLDERS = "/usr/share/common-licenses", "/usr/share/doc", "/usr/share/perl"
LONGEST = 256


def sentences(count):
    draw, found = random.Random(7), set()
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if not path.is_file() or path.is_symlink() or len(found) >= 20 * count:
                continue
            data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
            try:
                text = data.decode()
            except UnicodeDecodeError:
                continue
            for paragraph in re.split(r"\n\s*\n", text):
                for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(paragraph.split())):
                    if re.fullmatch(r"[A-Z][A-Za-z0-9 ,;:'\"()/-]+[.!?]", sentence) and 3 <= len(sentence.split()) <= 200:
                        found.add(sentence)
    return draw.sample(sorted(found), count)


def trained(lines, path):
    t = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    t.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    t.decoder = tokenizers.decoders.WordPiece()
    t.train_from_iterator(lines, tokenizers.trainers.WordPieceTrainer(vocab_size=8000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    t.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.save(str(path))
    return t


class Peer:
    def __init__(self, model, tokenizer, threads):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.tokenizer = tokenizer
        tokenizer.enable_truncation(LONGEST)
        tokenizer.enable_padding()

    def batch(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        mask = np.array([e.attention_mask for e in encoded], np.int64)
        arrays = {"input_ids": np.array([e.ids for e in encoded], np.int64), "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
        hidden = self.session.run(None, {i.name: arrays[i.name] for i in self.session.get_inputs()})[0]
        if hidden.ndim == 3:
            weights = mask[..., None].astype(np.float32)
            hidden = (hidden * weights).sum(1) / weights.sum(1)
        return hidden / np.linalg.norm(hidden, axis=1, keepdims=True)

    def run(self, texts):
        if len(texts) <= 32:
            return self.batch(texts)
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        answers = np.concatenate([self.batch([texts[i] for i in order[k:k + 32]]) for k in range(0, len(order), 32)])
        return answers[np.argsort(order)]


def packed(args, peer, folder):
    """Our container of the same model and tokenizer."""
    described = json.loads((pathlib.Path(__file__).resolve().parents[1] / "examples/sentences/pipeline.json").read_text())
    tokenize, run, pool, unit = described["steps"]
    output = peer.session.get_outputs()[0]
    run["in"] = {name: value for name, value in run["in"].items() if name in {i.name for i in peer.session.get_inputs()}}
    tokenize["out"] = {part: value for part, value in tokenize["out"].items() if value in run["in"].values() or value == "mask" and len(output.shape) == 3}
    run["out"] = {output.name: "hidden"}
    described["steps"] = [tokenize, run, *([pool] if len(output.shape) == 3 else []), unit]
    (folder / "pipeline.json").write_text(json.dumps(described))
    subprocess.run([args.bin / "mlpack", "build", args.model, "--pipeline", folder / "pipeline.json", "--target", "native", "--no-sign",
                    "--progress", "none", "-o", folder / "m.mlc"], check=True, stdout=subprocess.DEVNULL)
    return mlrt.open(folder / "m.mlc", threads=args.threads, allow_unsigned=True, time_limit=math.inf, memory_limit=math.inf)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    lines = sentences(256)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tokenizer = trained(sentences(3000), folder / "tokenizer.json")
        peer = Peer(args.model, tokenizer, args.threads)
        ours = packed(args, peer, folder)
    tokens = [len(e.ids) - e.attention_mask.count(0) for e in tokenizer.encode_batch(lines)]
    print(f"{len(lines)} sentences of {min(tokens)} to {max(tokens)} tokens, median {statistics.median(tokens)}; {args.threads} threads")
    by_length = sorted(range(len(lines)), key=lambda i: tokens[i])
    cases = {f"one text of {tokens[i]} tokens": [lines[i]] for i in (by_length[len(lines) // 10], by_length[len(lines) // 2], by_length[-8])}
    cases |= {"32 texts": lines[:32], "32 others": lines[32:64], "64 texts": lines[64:128]}
    for name, texts in cases.items():
        a, b = ours.run(text=texts)["embedding"], peer.run(texts)
        (least, median), (their_least, their_median) = in_turns((lambda: ours.run(text=texts), lambda: peer.run(texts)), args.rounds)
        print(f"| {name} | {least:.2f} ({median:.2f}) | {their_least:.2f} ({their_median:.2f}) | {their_least / least:.2f} | {np.abs(a - b).max():.1e} |")


main()
