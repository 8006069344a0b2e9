"""A model with ImageDecoder, as a user has it: built, explained, run on pictures, and on what is none."""
import json
import pathlib

from onnx_file import model, node, port
from tool_test import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/unit/io/data"


def container(tools, **attributes):
    """A picture, its extents, and a sum that kernels make of it."""
    nodes = [node("ImageDecoder", ["file"], ["picture"], name="decoder", **attributes),
             node("Shape", ["picture"], ["extents"], name="extents"),
             node("Cast", ["picture"], ["numbers"], name="cast", to=1),
             node("ReduceSum", ["numbers"], ["sum"], name="sum", keepdims=0)]
    inputs = [port("file", "u8", ["n"])]
    outputs = [port("picture", "u8", ["h", "w", "c"]), port("extents", "i64", [3]), port("sum", "f32", [])]
    (tools.dir / "decoder.onnx").write_bytes(model(nodes, inputs, outputs, opset=20))
    tools.run("mlpack", "build", "decoder.onnx", "-o", "decoder.mlc", "--target", "native")
    return tools.dir / "decoder.mlc"


def ask(tools, *args, code=0):
    return json.loads(tools.run("mlrun", *args, "--json", code=code).stdout)


def values(output):
    return output["data"] if isinstance(output, dict) else output


def pictures_of_every_kind_are_decoded(tools):
    container(tools)
    for variant in [v["name"] for v in ask(tools, "explain", "decoder.mlc")["variants"]]:
        answers = []
        for name in ("rgb.bmp", "bytes.ppm", "lzw.tiff", "lossless.webp", "rgb.jp2"):
            answers.append(ask(tools, "decoder.mlc", "-i", f"file={DATA / name}", "--variant", variant)["outputs"])
        assert all(a == answers[0] for a in answers), variant
        tools.run("mlrun", "decoder.mlc", "-i", DATA / "rgb.bmp", "-o", "out.npz", "--variant", variant)


def what_cannot_be_decoded_gives_no_pixels(tools):
    container(tools, pixel_format="Grayscale")
    (tools.dir / "text.bin").write_bytes(b"this is no picture")
    for variant in [v["name"] for v in ask(tools, "explain", "decoder.mlc")["variants"]]:
        outputs = ask(tools, "decoder.mlc", "-i", "text.bin", "--variant", variant)["outputs"]
        assert values(outputs["extents"]) == [0, 0, 1] and values(outputs["sum"]) == [0], outputs


def a_picture_of_more_memory_than_allowed_is_refused(tools):
    container(tools)
    # Lossless WebP of 36 bytes, 16383 x 16383 pixels of one colour. A model that takes damaged files does not take it.
    (tools.dir / "large.webp").write_bytes(bytes.fromhex(
        "524946461c000000574542505650384c0f0000002ffebfff1f0710fd8f020622a2ff0100"))
    for variant in [v["name"] for v in ask(tools, "explain", "decoder.mlc")["variants"]]:
        said = tools.run("mlrun", "decoder.mlc", "-i", "large.webp", "--variant", variant, code=7).stderr
        assert "image.decode: the picture may take 768 MiB, at most 256 MiB are allowed for decoding" in said, said


def the_container_says_what_it_needs(tools):
    container(tools)
    text = tools.run("mlpack", "inspect", "decoder.mlc", "--json").stdout
    assert text.count("app.image.decode") >= 2, text  # native and portable
    plan = tools.run("mlpack", "inspect", "decoder.mlc", "--plan").stdout
    assert 'host "image.decode" "RGB or-empty" u8 [-1, -1, 3] (%0)' in plan, plan
    explained = ask(tools, "explain", "decoder.mlc")
    assert all(v["answer"] == "fits" for v in explained["variants"]), explained
    checked = tools.run("mlpack", "check", "decoder.onnx").stdout
    assert "1 service of the application" in checked, checked
    assert "no golden vectors" in tools.run("mlrun", "selftest", "decoder.mlc", code=21).stderr
    assert json.loads(tools.run("mlrun", "probe", "--json").stdout)["features"]["app.image.decode"]["answer"] == "yes"


def wrong_uses_are_refused_with_the_node(tools):
    for shape, dtype, attributes, text in ((["n", 2], "u8", {}, "u8[n]"), (["n"], "i32", {}, "u8[n]"),
                                           (["n"], "u8", {"pixel_format": "CMYK"}, "pixel_format is 'CMYK'")):
        nodes = [node("ImageDecoder", ["file"], ["picture"], name="decoder", **attributes)]
        ports = [port("file", dtype, shape)], [port("picture", "u8", ["h", "w", "c"])]
        (tools.dir / "wrong.onnx").write_bytes(model(nodes, *ports, opset=20))
        done = tools.run("mlpack", "build", "wrong.onnx", "-o", "wrong.mlc", code=(4, 20))
        assert text in done.stderr and "decoder" in done.stderr, done.stderr
    (tools.dir / "old.onnx").write_bytes(model(nodes, *ports, opset=17))
    assert "ImageDecoder-17" in tools.run("mlpack", "build", "old.onnx", "-o", "old.mlc", code=20).stderr


if __name__ == "__main__":
    main([pictures_of_every_kind_are_decoded, what_cannot_be_decoded_gives_no_pixels,
          a_picture_of_more_memory_than_allowed_is_refused, the_container_says_what_it_needs,
          wrong_uses_are_refused_with_the_node])
