"""What is compared: models, the sizes of their free axes, and where they come from."""
import dataclasses
import importlib.util
import pathlib
import sys

import nets

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str              # "bert_base, 128 tokens"
    model: str             # of nets.NETS, of the zoo, or a file of the models beside the checkout
    family: str
    dims: tuple = ()       # (name, extent) of free axes; what is not named is 1
    input: str = ""        # a numpy file of inputs; drawn if there is none


def _tokens(model, family, *sizes, axis, **others):
    return [Case(f"{model}, {n} tokens", model, family, ((axis, n), *others.items())) for n in sizes]


CASES = [
    Case("resnet50", "resnet50", "convolutions"),
    Case("mobilenet_v2", "mobilenet_v2", "convolutions", (("N", 1),)),
    Case("mobilenet_v2, batch 4", "mobilenet_v2", "convolutions", (("N", 4),)),
    Case("yolov8n", "yolov8n", "convolutions"),
    Case("unet", "unet", "convolutions"),
    Case("dense", "dense", "convolutions"),
    Case("ultraface", "ultraface_rfb_320.onnx", "convolutions"),
    Case("fastestdet", "fastestdet.onnx", "convolutions"),
    Case("PP-OCR detection", "ppocr_v4_det.onnx", "convolutions",
         (("p2o.DynamicDimension.0", 1), ("p2o.DynamicDimension.1", 352), ("p2o.DynamicDimension.2", 640))),
    Case("PP-OCR line", "ppocr_v4_rec.onnx", "convolutions", (("p2o.DynamicDimension.0", 1), ("p2o.DynamicDimension.1", 320))),
    Case("basic_pitch", "basic_pitch.onnx", "sound", (("unk__749", 1),)),
    *_tokens("minilm_l6", "transformers", 16, 128, 512, axis="sequence"),
    *_tokens("bert_base", "transformers", 32, 128, 512, axis="sequence"),
    Case("vit", "vit", "transformers", (("batch", 1),)),
    Case("whisper encoder", "whisper_tiny_encoder", "transformers"),
    Case("gpt2, 128 tokens", "gpt2", "language models", (("sequence", 128), ("past", 0))),
    Case("gpt2, 512 tokens", "gpt2", "language models", (("sequence", 512), ("past", 0))),
    Case("gpt2, one token after 256", "gpt2", "language models", (("sequence", 1), ("past", 256))),
    Case("grouped decoder, 128 tokens", "grouped_decoder", "language models", (("new", 128), ("past", 0))),
    Case("grouped decoder, one token after 256", "grouped_decoder", "language models", (("new", 1), ("past", 256))),
    Case("LSTM recogniser, 200 frames", "lstm_recogniser", "recurrent", (("frames", 200),)),
    Case("GRU recogniser, 200 frames", "gru_recogniser", "recurrent", (("frames", 200),)),
    Case("DTLN, second half", "dtln_2.onnx", "recurrent"),
    Case("mobilenet_v2, 8 bits", "mobilenet_v2_quant.onnx", "8 bits"),
    Case("quantised residual net", "quantised_residual", "8 bits"),
    Case("Moonshine encoder, 8 bits", "moonshine_tiny_encoder_int8.onnx", "8 bits", (("batch_size", 1), ("num_samples", 44580))),
    Case("Magika", "magika_v3_3.onnx", "other", (("unk__214", 1),)),
]

# Recurrent layers by size, batch and direction: those of matrices that stay in a cache, and those that do not.
RECURRENT = [
    Case(f"{cell} {hidden}, {'both ways' if ways == 'both' else 'one way'}, batch {batch}", f"{cell.lower()}_{hidden}_{ways}", cell,
         (("time", 60), ("batch", batch)))
    for cell in ("LSTM", "GRU", "RNN") for hidden in nets.RECURRENT_SIZES for ways in ("one", "both") for batch in (1, 8)
]

SETS = {"models": CASES, "recurrent": RECURRENT}


def has_lengths(case):
    """Whether its model is there at other lengths too."""
    return sum(other.model == case.model for other in CASES) > 1


def _zoo():
    """The architectures beside the checkout; none where they are missing."""
    source = SHARED / "zoo" / "zoo.py"
    if not source.is_file():
        return {}
    spec = importlib.util.spec_from_file_location("zoo", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ZOO


def model_file(case, folder):
    """The path of the case's ONNX file, made in `folder` where it is drawn; None where its source is missing."""
    if case.model.endswith(".onnx"):
        path = SHARED / "models" / case.model
        return path if path.is_file() else None
    path = folder / f"{case.model}.onnx"
    if path.is_file():
        return path
    if case.model in nets.NETS:
        path.write_bytes(nets.NETS[case.model]().SerializeToString())
        return path
    zoo = _zoo()
    if case.model not in zoo:
        return None
    print(f"making {case.model}", file=sys.stderr)
    zoo[case.model]().save(str(folder))
    return path
