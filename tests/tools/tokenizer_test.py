"""Tokenizers against the library `tokenizers`: they are trained here, on text of the Debian system and generated lines, and
both encode the same lines. Ids, type ids, offsets, word ids and masks must be equal, and the text that ids are decoded to.

    tokenizer_test.py BUILD_BIN [--lines N] [--trained-on N] [--family NAME] [--speed]

Skipped (77) where `tokenizers` is neither installed nor to be had from PyPI: tests/unit/tokenizer has vectors of it.
"""
import argparse
import base64
import gzip
import importlib
import io
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import venv

VERSION = "0.23.3"  # whose answers are the definition
SENTENCEPIECE = "0.2.3"  # those of model files


def import_library(name, version, folder):
    """The library, installed below `folder` if it has to be; None without it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        pass
    place = pathlib.Path(folder) / f"{name}-{version}"
    if not place.is_dir():
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place, f"{name}=={version}"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            try:  # a Python without pip
                venv.create(place, with_pip=True)
                subprocess.run([place / "bin/pip", "install", "--quiet", "--no-deps", "--target", place, f"{name}=={version}"], check=True,
                               capture_output=True)
            except (subprocess.CalledProcessError, OSError):
                return None
    sys.path.insert(0, str(place))
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


# Lines

def system_lines(count, draw):
    """Lines of what Debian has of text: English, and manual pages in many languages."""
    files = []
    for folder in ("/usr/share/common-licenses", "/usr/share/doc", "/usr/share/man", "/usr/share/perl", "/usr/share/perl5", "/usr/share/i18n/locales"):
        files += sorted(p for p in pathlib.Path(folder).rglob("*") if p.is_file() and not p.is_symlink())
    draw.shuffle(files)
    lines = []
    for path in files:
        if len(lines) >= count:
            break
        try:
            data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
            text = data.decode("utf-8")
        except (OSError, UnicodeDecodeError, EOFError):
            continue
        own = [line for line in text.split("\n") if line]
        lines += draw.sample(own, min(len(own), 40))
    return lines[:count]


EMOJI = ["\U0001F468‍\U0001F469‍\U0001F467‍\U0001F466", "\U0001F44B\U0001F3FD", "❤️", "\U0001F1E9\U0001F1EA", "\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F",
         "1️⃣", "\U0001F600"]
WORDS = ["naïve", "café", "Ångström", "İstanbul", "ẞtraße", "ΑΒΓς", "Привет", "Ёлка", "שלום", "مرحبا", "हिन्दी", "ไทย", "한국어", "日本語", "漢字", "がぎ",
         "ﬁne", "Ⅷ", "½", "x²", "don't", "We'LL", "they've", "I'm", "o'clock", "C++", "e.g.", "3.14", "1,000", "foo_bar", "a-b", "http://x.y/?z=1", "＃", "「」",
         "‮abc‬", "a​b", "­soft", "Ǆ", "ǅ", "𝒜", "𐐀", "ꯍ", "각", "각", "é", "ố", "ạ̈", "́", "̈́x"]
SPECIALS = ["[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]", "<s>", "</s>", "<unk>", "<pad>", "<mask>", "<|endoftext|>", "<extra>", "Yesterday", "<tag>"]
SPACES = [" ", "  ", "\t", "\n", "\r\n", " ", "　", " ", " " * 40, "\x0b", "\x0c", "\x85", " ", "﻿"]


def generated_line(draw):
    kind = draw.randrange(8)
    if kind == 0:  # any code points
        return "".join(chr(c) for c in (draw.randrange(0x110000) for _ in range(draw.randrange(1, 30))) if not 0xD800 <= c < 0xE000)
    if kind == 1:  # of the basic plane, below the surrogates
        return "".join(chr(draw.randrange(1, 0xD800)) for _ in range(draw.randrange(1, 40)))
    if kind == 2:  # controls and Latin-1
        return "".join(chr(draw.randrange(0, 0x180)) for _ in range(draw.randrange(1, 60)))
    if kind == 3:  # marks upon marks
        return "".join(draw.choice("aeiouAEIOU가") + "".join(chr(draw.choice([0x300, 0x301, 0x323, 0x327, 0x345, 0x344, 0xF73, 0x5B0, 0x11A8])) for _ in range(draw.randrange(5)))
                       for _ in range(draw.randrange(1, 10)))
    parts = []
    for _ in range(draw.randrange(1, 14)):
        parts.append(draw.choice(draw.choice([EMOJI, WORDS, SPECIALS, SPACES, WORDS, [" "]])))
        if draw.random() < 0.5:
            parts.append(draw.choice([" ", " ", "", "a", ".", "'", "9"]))
    return "".join(parts)


def lines_of(count, seed):
    draw = random.Random(seed)
    lines = system_lines(count * 2 // 3, draw)
    lines += ["", " ", "\n", "a", "a" * 100, "a" * 101, "b" * 3000, " " * 500, "'" * 50, "[SEP][SEP][CLS] [MASK]", "  <mask>  <mask>x<mask> ", "1" * 200]
    while len(lines) < count:
        lines.append(generated_line(draw))
    draw.shuffle(lines)
    return lines


# Families

class Family:
    def __init__(self, name, tokenizer, options=None):
        self.name, self.tokenizer, self.options = name, tokenizer, options or {}


def word_piece(t, lines, **bert):
    tok = t.Tokenizer(t.models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = t.normalizers.BertNormalizer(**bert)
    tok.pre_tokenizer = t.pre_tokenizers.BertPreTokenizer()
    tok.train_from_iterator(lines, t.trainers.WordPieceTrainer(vocab_size=6000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    ids = [(name, tok.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tok.post_processor = t.processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids)
    tok.decoder = t.decoders.WordPiece(prefix="##")
    return tok


def bert_added(t, lines):
    tok = word_piece(t, lines)
    tok.post_processor = t.processors.BertProcessing(("[SEP]", tok.token_to_id("[SEP]")), ("[CLS]", tok.token_to_id("[CLS]")))
    tok.add_special_tokens([t.AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False)])
    tok.add_tokens([t.AddedToken("Yesterday", normalized=True), t.AddedToken("<tag>", single_word=True, normalized=False), t.AddedToken("naïve", single_word=True),
                    t.AddedToken("<extra>", rstrip=True)])
    tok.decoder = t.decoders.WordPiece(prefix="##", cleanup=False)
    return tok


def byte_level(t, lines, add_prefix_space, processor=True):
    tok = t.Tokenizer(t.models.BPE())
    tok.pre_tokenizer = t.pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tok.train_from_iterator(lines, t.trainers.BpeTrainer(vocab_size=6000, initial_alphabet=t.pre_tokenizers.ByteLevel.alphabet(),
                                                         special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<|endoftext|>"], show_progress=False))
    if processor:
        tok.post_processor = t.processors.ByteLevel(trim_offsets=False)
    tok.decoder = t.decoders.ByteLevel()
    return tok


def roberta(t, lines):
    tok = byte_level(t, lines, True, False)
    tok.add_special_tokens([t.AddedToken("<mask>", lstrip=True)])
    tok.post_processor = t.processors.RobertaProcessing(("</s>", tok.token_to_id("</s>")), ("<s>", tok.token_to_id("<s>")), trim_offsets=True, add_prefix_space=True)
    return tok


def llama(t, lines, legacy):
    """BPE of SentencePiece: bytes of what is unknown; no words (as converted files have it) or Metaspace."""
    tok = t.Tokenizer(t.models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if legacy:
        tok.normalizer = t.normalizers.Sequence([t.normalizers.Prepend("▁"), t.normalizers.Replace(" ", "▁")])
    else:
        tok.pre_tokenizer = t.pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    trained = t.Tokenizer(t.models.BPE(unk_token="<unk>"))  # words cannot be found without splitting
    trained.pre_tokenizer = t.pre_tokenizers.Metaspace()
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trained.train_from_iterator(lines, t.trainers.BpeTrainer(vocab_size=5000, limit_alphabet=300, special_tokens=specials, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    whole = json.loads(tok.to_str())
    whole["model"].update(vocab=model["vocab"], merges=model["merges"])
    tok = t.Tokenizer.from_str(json.dumps(whole))
    tok.add_special_tokens(["<unk>", "<s>", "</s>"])
    tok.add_tokens([t.AddedToken("<extra>", normalized=legacy)])
    tok.post_processor = t.processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tok.decoder = t.decoders.Sequence([t.decoders.Replace("▁", " "), t.decoders.ByteFallback(), t.decoders.Fuse(), t.decoders.Strip(" ", 1, 0)])
    return tok


def unigram(t, lines, scheme, byte_fallback=False):
    tok = t.Tokenizer(t.models.Unigram())
    tok.normalizer = t.normalizers.Sequence([t.normalizers.Lowercase(), t.normalizers.Replace("  ", " ")])
    tok.pre_tokenizer = t.pre_tokenizers.Sequence([t.pre_tokenizers.WhitespaceSplit(), t.pre_tokenizers.Metaspace(prepend_scheme=scheme)])
    specials = ["<s>", "<pad>", "</s>", "<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if byte_fallback else [])
    lines = [line for line in lines if all(c < "Ԁ" for c in line)]  # every character becomes a token
    tok.train_from_iterator(lines, t.trainers.UnigramTrainer(vocab_size=4000, special_tokens=specials, unk_token="<unk>", show_progress=False))
    if byte_fallback:
        whole = json.loads(tok.to_str())
        whole["model"]["byte_fallback"] = True
        tok = t.Tokenizer.from_str(json.dumps(whole))
    tok.decoder = t.decoders.Metaspace(prepend_scheme=scheme)
    return tok


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "llama3": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + REST],
    "qwen2": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + REST],
    "gpt4": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "gpt4o": [r"[^\r\n\p{L}\p{N}]?%s*%s+%s?|[^\r\n\p{L}\p{N}]?%s+%s*%s?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" % ((UPPER, LOWER, CONTRACTIONS) * 2) + REST],
    "deepseek": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
                 r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + REST],
}


def patterned(t, lines, patterns, normalizer=None, ignore_merges=False):
    """Byte-level BPE of what regular expressions split."""
    tok = t.Tokenizer(t.models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = t.pre_tokenizers.Sequence([t.pre_tokenizers.Split(t.Regex(p), "isolated", invert=False) for p in patterns] +
                                                  [t.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.train_from_iterator(lines, t.trainers.BpeTrainer(vocab_size=6000, initial_alphabet=t.pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tok.add_special_tokens(["<|endoftext|>"])
    tok.post_processor = t.processors.Sequence([t.processors.ByteLevel(trim_offsets=False), t.processors.TemplateProcessing(
        single="<|endoftext|> $A", pair="<|endoftext|> $A <|endoftext|>:1 $B:1", special_tokens=[("<|endoftext|>", tok.token_to_id("<|endoftext|>"))])])
    tok.decoder = t.decoders.ByteLevel()
    return tok


# What a pattern may have, apart from what vocabularies in use have.
FEATURES = {
    "possessive": r"\w++\s|\d*+a|a?+a", "atomic": r"(?>\d+)a|(?>a+)", "lazy": r"a.*?b|\w{2,3}?|x{2}?y", "behind": r"(?<=\s)\w+|(?<!\w)\p{P}|\B\d",
    "lines": r"^\w|\w$|\s+$", "edges": r"\A\p{L}|\b\w+\b|.\z", "numbers": r"\d{2}|\d{3,}|[a-f]{,2}x|(?:ab|a)(?:c|bcd)", "dot": r"(?m:a.)|.{3}",
    "case": r"(?i)hello|[k-m]+(?-i:X)?|Å", "negated": r"[^\S\r\n]+|\P{L}\p{^N}|[^\W\d_]+", "classes": r" ?[^(\s|[.,!?…。，、।۔،])]+", "both": r"[\p{L}&&[^\p{Han}a-f]]+|\p{Han}{2}",
    "escapes": r"\x41|\x{e9}|\u0439|[\t-\r]|\h\H|\-", "clip": r"<\|endoftext\|>|'s|'t|'re|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
}


def featured(t, lines, pattern, behaviour, invert):
    tok = t.Tokenizer(t.models.WordLevel(unk_token="<unk>"))
    tok.normalizer = t.normalizers.Replace(t.Regex(r" {2,}|\n(?=\S)"), "▁x")
    tok.pre_tokenizer = t.pre_tokenizers.Split(t.Regex(pattern), behaviour, invert=invert)
    tok.train_from_iterator(lines, t.trainers.WordLevelTrainer(vocab_size=2000, special_tokens=["<unk>"], show_progress=False))
    tok.decoder = t.decoders.Sequence([t.decoders.Replace(t.Regex("[a-c]+"), "é"), t.decoders.Fuse()])
    return tok


def formed(t, lines, *names):
    """Normalisers, by name."""
    tok = t.Tokenizer(t.models.BPE(unk_token="<unk>"))
    tok.normalizer = t.normalizers.Sequence([getattr(t.normalizers, name)() for name in names])
    tok.pre_tokenizer = t.pre_tokenizers.BertPreTokenizer()
    tok.train_from_iterator(lines, t.trainers.BpeTrainer(vocab_size=3000, special_tokens=["<unk>"], show_progress=False))
    return tok


def letters(t, lines, cleanup):
    """Wav2Vec2: letters, and blanks between those that are the same."""
    tok = t.Tokenizer(t.models.WordLevel({"<pad>": 0, "|": 1, "<unk>": 2, **{c: i + 3 for i, c in enumerate("abcdefghijklmnopqrstuvwxyz'., ")}}, unk_token="<unk>"))
    tok.normalizer = t.normalizers.Lowercase()
    tok.pre_tokenizer = t.pre_tokenizers.Split(t.Regex("."), "isolated")
    tok.decoder = t.decoders.Sequence([t.decoders.CTC("<pad>", "|", cleanup), t.decoders.Fuse()])
    return tok


def suffixed(t, lines):
    """The first BPE: a suffix at the end of words."""
    tok = t.Tokenizer(t.models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tok.normalizer = t.normalizers.Lowercase()
    tok.pre_tokenizer = t.pre_tokenizers.Sequence([t.pre_tokenizers.Split("--", "removed"), t.pre_tokenizers.Split("the", "contiguous"), t.pre_tokenizers.BertPreTokenizer()])
    tok.train_from_iterator(lines, t.trainers.BpeTrainer(vocab_size=3000, limit_alphabet=200, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))
    tok.decoder = t.decoders.BPEDecoder()
    return tok


def word_level(t, lines):
    tok = t.Tokenizer(t.models.WordLevel(unk_token="<unk>"))
    tok.normalizer = t.normalizers.Sequence([t.normalizers.NFD(), t.normalizers.Strip(), t.normalizers.Lowercase(), t.normalizers.Replace("--", " - ")])
    tok.pre_tokenizer = t.pre_tokenizers.Sequence([t.pre_tokenizers.Whitespace(), t.pre_tokenizers.Digits(individual_digits=True)])
    tok.train_from_iterator(lines, t.trainers.WordLevelTrainer(vocab_size=4000, special_tokens=["<unk>"], show_progress=False))
    return tok


def punctuated(t, lines):
    tok = t.Tokenizer(t.models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True))
    tok.normalizer = t.normalizers.Sequence([t.normalizers.Prepend("_"), t.normalizers.Replace(" ", "_")])
    tok.pre_tokenizer = t.pre_tokenizers.Sequence([t.pre_tokenizers.Punctuation("merged_with_next"), t.pre_tokenizers.Digits(individual_digits=False)])
    tok.train_from_iterator(lines, t.trainers.BpeTrainer(vocab_size=2000, limit_alphabet=60, special_tokens=["<unk>"], continuing_subword_prefix="##", show_progress=False))
    return tok


# Model files of SentencePiece

def train_pieces(s, lines, **options):
    """A model file as bytes."""
    model = io.BytesIO()
    lines = [line.replace("\0", " ") for line in lines if all(c < "\u0600" for c in line)]
    s.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=3000, hard_vocab_limit=False, minloglevel=2, **options)
    return model.getvalue()


def fields(message):
    """The fields of a message of Protocol Buffers: number and value."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        tag = varint()
        size = {0: 0, 1: 8, 2: None, 5: 4}[tag & 7]
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        size = varint() if size is None else size
        yield tag >> 3, message[at:at + size]
        at += size


def charsmap_of(model):
    return next((value for number, message in fields(model) if number == 3 for inner, value in fields(message) if inner == 2), b"")


def pieces_of(model):
    for number, message in fields(model):
        if number == 1:
            piece = dict(fields(message))
            yield piece[1].decode(), struct.unpack("<f", piece.get(2, b"\0\0\0\0"))[0]


def converted(t, s, lines, rule, marian=False):
    """A unigram model of SentencePiece as the converters write it (T5, XLM-R, mBART)."""
    model = train_pieces(s, lines, model_type="unigram", normalization_rule_name=rule)
    vocabulary = [[text, score] for text, score in pieces_of(model)]
    map_64 = base64.b64encode(charsmap_of(model)).decode()
    precompiled = {"type": "Precompiled", "precompiled_charsmap": map_64}
    replace = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁" if marian else " "}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    tok = t.Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [precompiled, *([strip] if marian else []), replace]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True} if not marian else {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]},
        "post_processor": None, "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": False}}))
    tok.add_special_tokens(["<s>", "</s>", "<mask>"])
    tok.post_processor = t.processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                                         special_tokens=[(name, tok.token_to_id(name)) for name in ("<s>", "</s>")])
    return tok


MODEL_FILES = {
    "unigram": dict(model_type="unigram"),
    "unigram_bytes": dict(model_type="unigram", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False),
    "unigram_folded": dict(model_type="unigram", normalization_rule_name="nmt_nfkc_cf", user_defined_symbols=["<sep>", "abc", "▁▁"]),
    "bpe": dict(model_type="bpe"),
    "bpe_bytes": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True),
    "bpe_symbols": dict(model_type="bpe", byte_fallback=True, add_dummy_prefix=False, normalization_rule_name="nfkc", control_symbols=["<ctl>"],
                        user_defined_symbols=["<sep>", "the", "▁▁", "▁▁▁"], allow_whitespace_only_pieces=True, remove_extra_whitespaces=False),
}


def compare_model_file(name, s, model, program, lines, folder):
    """Against the library of SentencePiece: ids, and what they are decoded to."""
    checker = Checker("model_" + name)
    path = pathlib.Path(folder) / "tokenizer.model"
    path.write_bytes(model)
    reference = s.SentencePieceProcessor(model_proto=model)
    ours = Ours(program, folder, path)
    lines = [line for line in lines if "\0" not in line]
    for text, mine in zip(lines, ours.encodings(lines), strict=True):
        checker.check("encode", text, mine[0], {"ids": reference.encode(text)}, ("ids",))
    draw = random.Random(5)
    rows = [reference.encode(line) for line in lines[:600]] + [[draw.randrange(reference.vocab_size()) for _ in range(draw.randrange(30))] for _ in range(300)]
    for row, mine in zip(rows, ours.run([struct.pack(f"<{len(r)}I", *r) for r in rows], decode=True, special=False), strict=True):
        text = reference.decode(row)
        checker.check("decode", row, mine, {"text": text, "streamed": text}, ("text", "streamed"))
    print(f"{'FAIL' if checker.failed else 'ok  '} model_{name}: {checker.compared} compared, {checker.failed} differ")
    return checker.failed


def families(t, s, lines):
    yield "wordpiece", lambda: word_piece(t, lines)
    yield "wordpiece_cased", lambda: word_piece(t, lines, lowercase=False)
    yield "wordpiece_added", lambda: bert_added(t, lines)
    yield "gpt2", lambda: byte_level(t, lines, False)
    yield "gpt2_prefix", lambda: byte_level(t, lines, True)
    yield "roberta", lambda: roberta(t, lines)
    yield "llama_legacy", lambda: llama(t, lines, True)
    yield "llama", lambda: llama(t, lines, False)
    yield "unigram", lambda: unigram(t, lines, "always")
    yield "unigram_bytes", lambda: unigram(t, lines, "first", True)
    yield "bpe_suffix", lambda: suffixed(t, lines)
    yield "wordlevel", lambda: word_level(t, lines)
    yield "bpe_unknown", lambda: punctuated(t, lines)
    yield "llama3", lambda: patterned(t, lines, PATTERNS["llama3"], ignore_merges=True)
    yield "qwen2", lambda: patterned(t, lines, PATTERNS["qwen2"], t.normalizers.NFC())
    yield "gpt4", lambda: patterned(t, lines, PATTERNS["gpt4"])
    yield "gpt4o", lambda: patterned(t, lines, PATTERNS["gpt4o"])
    yield "deepseek", lambda: patterned(t, lines, PATTERNS["deepseek"])
    behaviours = [(b, i) for i in (False, True) for b in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")]
    for i, (name, pattern) in enumerate(FEATURES.items()):
        yield f"pattern_{name}", lambda p=pattern, b=behaviours[i % len(behaviours)]: featured(t, lines, p, *b)
    if s is not None:
        yield "t5", lambda: converted(t, s, lines, "nmt_nfkc")
        yield "xlm_r", lambda: converted(t, s, lines, "nmt_nfkc_cf", marian=True)
    yield "ctc", lambda: letters(t, lines, True)
    yield "ctc_raw", lambda: letters(t, lines, False)
    yield "nfkc", lambda: formed(t, lines, "NFKC")
    yield "nfkd", lambda: formed(t, lines, "NFKD", "StripAccents", "Lowercase")
    yield "nmt", lambda: formed(t, lines, "Nmt", "NFD", "NFC")


# Comparing

def pack(texts):
    return b"".join(struct.pack("<I", len(data)) + data for data in texts)


class Ours:
    def __init__(self, program, folder, tokenizer):
        self.program, self.folder = program, pathlib.Path(folder)
        self.file = self.folder / "tokenizer.json"
        if isinstance(tokenizer, pathlib.Path):
            self.file = tokenizer
        else:
            self.file.write_text(tokenizer, encoding="utf-8")
        self.compiled = self.folder / "tokenizer.compiled"
        self.call(self.file, self.compiled)

    def run(self, texts, **options):
        path = self.folder / "texts"
        path.write_bytes(pack(texts))
        return [json.loads(line) for line in self.call(self.compiled, path, *(f"{k}={int(v)}" for k, v in options.items())).split("\n") if line]

    def call(self, *arguments):
        done = subprocess.run([self.program, *arguments], capture_output=True)
        if done.returncode != 0:
            raise SystemExit(f"tokenize_lines: {done.returncode} {done.stderr.decode()}")
        return done.stdout.decode()

    def encodings(self, texts, **options):
        """A list of encodings for each text, or pair of texts."""
        out, current = [], []
        for line in self.run([text.encode() for text in texts], **options):
            current.append(line)
            if line["last"]:
                out.append(current)
                current = []
        return out


def theirs(e):
    return {"ids": e.ids, "types": e.type_ids, "words": [-1 if w is None else w for w in e.word_ids], "attention": e.attention_mask,
            "special": e.special_tokens_mask, "offsets": [list(o) for o in e.offsets]}


def difference(one, other, keys):
    for key in keys:
        if one[key] != other[key]:
            at = next((i for i, (a, b) in enumerate(zip(one[key], other[key])) if a != b), min(len(one[key]), len(other[key])))
            return f"{key} from {at}: ours {one[key][at:at + 6]}, theirs {other[key][at:at + 6]}"
    return None


class Checker:
    def __init__(self, name):
        self.name, self.compared, self.failed = name, 0, 0

    def check(self, what, text, ours, reference, keys=("ids", "types", "words", "attention", "special", "offsets")):
        self.compared += 1
        wrong = "error: " + ours["error"] if "error" in ours else difference(ours, reference, keys)
        if wrong:
            self.failed += 1
            if self.failed <= 6:
                print(f"FAIL {self.name}, {what}: {text!r:.300}: {wrong}")


def check_bytes(checker, text, encoding):
    """Byte offsets are those of the code points."""
    places = [0]
    for c in text:
        places.append(places[-1] + len(c.encode()))
    expected = [[places[b], places[e]] for b, e in encoding["offsets"]]
    checker.check("bytes", text, {"bytes": encoding["bytes"]}, {"bytes": expected}, ("bytes",))


def compare(name, tok, program, lines, folder):
    checker = Checker(name)
    ours = Ours(program, folder, tok.to_str())
    for text, mine in zip(lines, ours.encodings(lines), strict=True):
        reference = theirs(tok.encode(text))
        checker.check("encode", text, mine[0], reference)
        if "error" not in mine[0]:
            check_bytes(checker, text, mine[0])
    some = lines[:600]
    for i, mine in enumerate(ours.encodings(some, pairs=True)):
        checker.check("pair", some[2 * i], mine[0], theirs(tok.encode(some[2 * i], some[2 * i + 1])))
    for text, mine in zip(some, ours.encodings(some, special=False), strict=True):
        checker.check("without template", text, mine[0], theirs(tok.encode(text, add_special_tokens=False)))
    compare_decoding(checker, tok, ours, some)
    compare_lengths(checker, tok, ours, some)
    print(f"{'FAIL' if checker.failed else 'ok  '} {name}: {checker.compared} compared, {checker.failed} differ")
    return checker.failed


def compare_decoding(checker, tok, ours, lines):
    draw = random.Random(5)
    size = tok.get_vocab_size()
    rows = [tok.encode(line).ids for line in lines] + [[draw.randrange(size) for _ in range(draw.randrange(30))] for _ in range(300)]
    for skip in (False, True):
        for row, mine in zip(rows, ours.run([struct.pack(f"<{len(r)}I", *r) for r in rows], decode=True, special=skip), strict=True):
            text = tok.decode(row, skip_special_tokens=skip)
            checker.check("decode", row, mine, {"text": text, "streamed": text}, ("text", "streamed"))


def compare_lengths(checker, tok, ours, lines):
    """Cut and padded, of one text and of two. Of parts beyond the first the type ids are the template's here; there they stay those of the text."""
    cuts = ["longest_first", "only_first", "only_second"]
    lines = [line[:300] for line in lines]  # tens of parts each
    for length, stride, left, cut in ((16, 0, False, 0), (12, 3, False, 0), (9, 2, True, 0), (40, 0, False, 1), (30, 1, True, 2)):
        for pairs in (False, True):
            if cut == 2 and not pairs:
                continue
            tok.enable_truncation(length, stride=stride, strategy=cuts[cut], direction="left" if left else "right")
            for i, mine in enumerate(ours.encodings(lines, pairs=pairs, length=length, stride=stride, left=left, cut=cut)):
                texts = lines[2 * i:2 * i + 2] if pairs else [lines[i]]
                try:
                    reference = tok.encode(*texts)
                except BaseException as e:  # a panic of Rust is no Exception; a text that is too short
                    if isinstance(e, KeyboardInterrupt):
                        raise
                    checker.check("refused", texts, {"refused": ["error" in mine[0]]}, {"refused": [True]}, ("refused",))
                    continue
                checker.check(f"cut {length} {stride} {left} {cut}", texts, mine[0], theirs(reference))
                checker.check("parts", texts, {"parts": [e["ids"] for e in mine[1:]], "places": [e["offsets"] for e in mine[1:]]},
                              {"parts": [e.ids for e in reference.overflowing], "places": [[list(o) for o in e.offsets] for e in reference.overflowing]},
                              ("parts", "places"))
            tok.no_truncation()
    tok.enable_padding(length=24, pad_to_multiple_of=10, direction="left", pad_id=0)
    for text, mine in zip(lines, ours.encodings(lines, pad=24, multiple=10, pad_left=True), strict=True):
        checker.check("pad", text, mine[0], theirs(tok.encode(text)))
    tok.no_padding()


def speed(name, tok, program, lines, folder):
    ours = Ours(program, folder, tok.to_str())
    best = min(ours.run([line.encode() for line in lines], time=True)[0] for _ in range(3))
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        for line in lines:
            tok.encode(line)
        took.append(time.perf_counter() - begin)
    size = sum(len(line.encode()) for line in lines) / 1e6
    print(f"speed {name}: ours {size / best:.2f} MB/s, tokenizers {size / min(took):.2f} MB/s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--trained-on", type=int, default=6000, metavar="LINES", help="of what tokenizers are made")
    parser.add_argument("--family")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    t = import_library("tokenizers", VERSION, args.bin.parent)
    if t is None:
        print(f"skipped: tokenizers {VERSION} is not installed and cannot be had from PyPI")
        return 77
    lines = lines_of(args.lines, args.seed)
    sample = [line for line in lines_of(args.trained_on, args.seed + 1) if len(line) < 200]  # tokens become as long as words
    failed = 0
    s = import_library("sentencepiece", SENTENCEPIECE, args.bin.parent)
    if s is None:
        print(f"skipped: sentencepiece {SENTENCEPIECE} is not installed and cannot be had from PyPI; its families are left out")
    for name, options in MODEL_FILES.items():
        if s is None or args.speed or (args.family and args.family != "model_" + name):
            continue
        with tempfile.TemporaryDirectory(prefix="mlc-tokenizer-") as folder:
            failed += compare_model_file(name, s, train_pieces(s, sample, **options), args.bin / "tokenize_lines", lines, folder)
    for name, make in families(t, s, sample):
        if args.family and args.family != name:
            continue
        with tempfile.TemporaryDirectory(prefix="mlc-tokenizer-") as folder:
            if args.speed:
                speed(name, make(), args.bin / "tokenize_lines", lines, folder)
            else:
                failed += compare(name, make(), args.bin / "tokenize_lines", lines, folder)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
