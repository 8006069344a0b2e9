"""Writes the tables of model.md: the model of speed against what cards.md measured, and what it says of nets and of attention.

    model_table.py --nets FOLDER [--bin build/release/bin]      FOLDER has resnet50.onnx and the others of NETS; one that is missing is named and left as it is
"""
import argparse
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import model
import templates

HERE = pathlib.Path(__file__).resolve().parent
SEQUENCE = {"batch": 1, "sequence": 128}
NETS = {"resnet50": {}, "mobilenet_v2": {"N": 1}, "minilm_l6": SEQUENCE, "bert_base": SEQUENCE, "yolov8n": {}, "vit": {}, "gpt2": {"past": 64}}
FREE = {"gpt2", "mobilenet_v2"}  # compiled with free extents, as they were measured
PRECISIONS = ("f32", "tf32", "f16")
# What cards.md measured with kernels that are not those of today: another target's text has the old ones, or none has.
OLD_KERNELS = {"attention-f32": "cuda-sm75", "attention-f16": "cuda-sm75"}
# The longest kernel of products whose lanes loaded one piece ahead by way of registers, us on an H100: kernels of 2026-11-29, before copies beside lanes.
LOADED = {"gemm-f32": 3509.7, "gemm-f16": 820.0, "gemm-bf16": 861.7, "conv-f32": 63.4, "conv-f16": 133.4}
NO_KERNELS = {"gemm-f16", "conv-f16"}


class Maker:
    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)

    def told(self, source, card, variant="", dims=None, free=False, precision="f32"):
        card, out = model.CARDS[card], self.folder / "made.mlc"
        variant, dims = variant or card.row, [f"{k}={v}" for k, v in (dims or {}).items()]
        frozen = [] if free else [a for d in dims for a in ("--dim", d)]
        subprocess.run([self.options.bin / "mlpack", "build", source, "-o", out, "-f", "--no-sign", "--no-golden", "--no-program", "--progress", "none", "--threads", "1",
                        "--target", variant, "--cubin", "none", "--precision", precision, *frozen], capture_output=True, check=True)
        return model.model(model.Container(out, variant, self.options.bin, dims), card)

    def net(self, name):
        path = self.options.nets / f"{name}.onnx"
        return path if path.exists() else None


def measured(heading, column):
    """A column of a table of cards.md, by the first word of its rows."""
    text = (HERE / "cards.md").read_text(encoding="utf-8").split(f"## {heading}")[1].split("\n## ")[0]
    rows = [[c.strip() for c in line.strip("| ").split("|")] for line in text.splitlines() if line.startswith("|")]
    at = next(k for k, name in enumerate(rows[0]) if name.startswith(column))
    return {row[0].split()[0]: float(row[at].replace(",", "")) for row in rows[2:]}


def against_cards(maker):
    yield "| what, on the H200 | measured, us | modelled, us | modelled / measured | bound by |"
    yield "|---|---|---|---|---|"
    ratios, bench = [], measured("Kernels, H200", "after")
    for t in templates.ALL:
        if t.name in NO_KERNELS:
            continue
        told = maker.told(templates.write(maker.folder, t, False), "h200", OLD_KERNELS.get(t.name, ""))
        longest = told["kernels"][0]
        data = any(k["by_data"] for k in told["kernels"])
        ratio = told["us"] / bench[t.name]
        ratios += [] if data else [ratio]
        name = f"{t.name} {'x'.join(map(str, t.full))}{' (by multiply-adds)' if t.name in OLD_KERNELS else ''}"
        yield f"| {name} | {bench[t.name]:,} | {told['us']:,} | {ratio:.2f} | {'data: not modelled' if data else longest['bound']} |"
    nets = measured("Nets, batch 1", "H200, third")
    for name in nets:
        if maker.net(name):
            told = maker.told(maker.net(name), "h200", dims=NETS[name], free=name in FREE)
            ratios.append(told["with_copies_us"] / nets[name])
            yield f"| {name}, {told['launches']} launches, with copies | {nets[name]:,} | {told['with_copies_us']:,} | {ratios[-1]:.2f} | |"
    spread = math.exp(sum(abs(math.log(r)) for r in ratios) / len(ratios))
    yield f"| all but those of data: {len(ratios)} | | | mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, typical factor {spread:.2f}, from {min(ratios):.2f} to {max(ratios):.2f} | |"


def of_nets(maker):
    yield ("| net, batch 1 | precision | launches | below half of 132 multiprocessors | of those with 5 us or more | H100: kernels, us | with their nodes, us "
           "| A100: launches | below half of 108 | us |")
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, dims in NETS.items():
        for precision in PRECISIONS if maker.net(name) and name not in FREE else ("f32",) if name == "gpt2" and maker.net(name) else ():
            h = maker.told(maker.net(name), "h100", dims=dims, free=name in FREE, precision=precision)
            row = f"| {name} | {precision} | {h['launches']} | {h['few_blocks']} | {h['few_and_long']} | {h['kernels_us']:,} | {h['us']:,} |"
            if precision == "f32":
                a = maker.told(maker.net(name), "a100", dims=dims, free=name in FREE, precision=precision)
                row += f" {a['launches']} | {a['few_blocks']} | {a['us']:,} |"
            yield row + ("" if precision == "f32" else " | | |")


def of_attention(maker):
    yield "| attention (4, 16, 1024, 64), H100 | text | us | Top/s | bound by | registers | slots of the loop |"
    yield "|---|---|---|---|---|---|---|"
    for name in ("attention-f32", "attention-f16"):
        t = next(t for t in templates.ALL if t.name == name)
        tier = {"attention-f32": "tf32", "attention-f16": "f16"}[name]
        for variant, text, precision in (("cuda-sm75", "multiply-adds", "f32"), ("", "tensor cores", "f32"), ("", f"tensor cores, `--precision {tier}`", tier)):
            k = maker.told(templates.write(maker.folder, t, False), "h100", variant, precision=precision)["kernels"][0]
            loop = ", ".join(f"{n} {c}" for n, c in k["loop"].items() if not n.endswith("_bits"))
            yield f"| {name} | {text} | {k['us']:,} | {t.operations(*t.full) / k['us'] / 1e6:.0f} | {k['bound']} | {k['registers']} | {loop} |"


def of_products(maker):
    yield "| longest kernel, H100 | loads one piece ahead, us | today, us | bound by | registers | memory of a block | slots of the loop |"
    yield "|---|---|---|---|---|---|---|"
    for name, before in LOADED.items():
        t = next(t for t in templates.ALL if t.name == name)
        k = maker.told(templates.write(maker.folder, t, False), "h100")["kernels"][0]
        loop = ", ".join(f"{n} {c}" for n, c in k["loop"].items() if not n.endswith("_bits"))
        yield f"| {name} {'x'.join(map(str, t.full))} | {before:,} | {k['us']:,} | {k['bound']} | {k['registers']} | {k['shared']:,} | {loop} |"


def main():
    parser = argparse.ArgumentParser(description="writes the tables of model.md")
    parser.add_argument("--nets", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, default=model.ROOT / "build/release/bin")
    parser.add_argument("--only", default="", help="one table: cards, nets, attention, products")
    options = parser.parse_args()
    for program in ("ptxas", "nvdisasm"):
        if not model.sass.tool(program):
            sys.exit(f"needs {program}: in PATH, or in $MLC_NVIDIA_TOOLS")
    page = HERE / "model.md"
    with tempfile.TemporaryDirectory(prefix="mlc-model-") as folder:
        maker = Maker(options, folder)
        missing = [name for name in NETS if not maker.net(name)]
        if missing:
            print(f"without {', '.join(missing)}: not in {options.nets}", file=sys.stderr)
        for name, make in (("cards", against_cards), ("nets", of_nets), ("attention", of_attention), ("products", of_products)):
            if options.only in ("", name):
                rows, text = "\n".join(make(maker)), page.read_text(encoding="utf-8")
                text, count = re.subn(rf"(<!-- {name} -->\n).*?(?=\n<!-- end -->)", lambda at: at[1] + rows, text, flags=re.S)
                if count != 1:
                    sys.exit(f"{page} has no place for the table {name}")
                page.write_text(text, encoding="utf-8")
                print(rows)


if __name__ == "__main__":
    sys.exit(main())
