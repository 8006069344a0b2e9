"""What examples/ray makes of the bodies of requests. Ray itself is in ray_test.py: here stand-ins have the names that the example imports."""
import asyncio
import base64
import functools
import io
import json
import sys
import types
import unittest
import unittest.mock
import wave

import mlrt  # noqa: F401  stays when the stand-ins go
import numpy as np

import support


@functools.cache
def app():
    names = {"ray": {}, "ray.serve": {"deployment": lambda of: of}, "ray.exceptions": {"RayError": OSError, "RayTaskError": OSError},
             "ray.serve.exceptions": {"RayServeException": OSError}, "starlette": {}, "starlette.requests": {"Request": object}, "starlette.responses": {"JSONResponse": object}}
    modules = {name: types.ModuleType(name) for name in names}
    for name, members in names.items():
        vars(modules[name]).update(members)
    modules["ray"].serve = modules["ray.serve"]
    with unittest.mock.patch.dict(sys.modules, modules), unittest.mock.patch.object(sys, "path", [str(support.ROOT / "examples/ray"), *sys.path]):
        import app as made
    return made


class Bodies(unittest.TestCase):
    def ask(self, file, body):
        replica = app().Model(file, 1)
        return asyncio.run(replica.run(body if isinstance(body, bytes) else json.dumps(body).encode()))

    def refused(self, file, body, *words):
        code, answer = self.ask(file, body)
        self.assertEqual(code, 400, answer)
        for word in words:
            self.assertIn(word, answer["error"])

    def test_a_pipeline_with_one_input_gets_the_body(self):
        picture = (support.ROOT / "examples/digits/images/photo_3.jpg").read_bytes()
        code, answer = self.ask(support.digits(), picture)
        self.assertEqual((code, answer["digits"][0]["label"]), (200, "3"))
        self.refused(support.digits(), b"no picture")

    def test_a_program_without_a_pipeline_gets_its_inputs_by_name(self):
        file = support.model("sum", [support.node("Add", ["a", "b"], ["y"])], [("a", "f32", ["n"]), ("b", "f32", ["n"])], [("y", "f32", ["n"])])
        self.assertEqual(self.ask(file, {"a": [1, 2], "b": [0.5, 3]}), (200, {"y": [1.5, 5.0]}))
        expected = "an object of JSON with a, b expected"
        self.refused(file, b"\xff\xd8", "the body is no JSON", expected)
        self.refused(file, b"[" * 100_000, "the body is no JSON", expected)
        self.refused(file, [1], "the body is a list of JSON", expected)
        self.refused(file, {"a": [1]}, "the body has a;", expected)
        self.refused(file, {"a": [1], "b": [1], "c": [1]}, "the body has a, b, c;", expected)
        self.refused(file, {"a": [[1], [1, 2]], "b": [1]}, "input 'a': ")
        self.refused(file, {"a": "/etc/passwd", "b": [1]}, "input 'a': ")
        self.refused(file, {"a": [1, 2], "b": [1, 2, 3]})

    def test_a_pipeline_with_several_inputs_gets_files_in_base64(self):
        (support.SCRATCH / "two.onnx").write_bytes(support.onnx_file.model(
            [support.node("Cast", ["language"], ["l"], to=1), support.node("Concat", ["x", "l"], ["y"], axis=0)],
            [support.port("x", "f32", [4]), support.port("language", "i64", [1])], [support.port("y", "f32", [5])]))
        steps = [{"op": "decode_audio", "in": "speech", "channels": "first", "rate": 100, "out": "x"},
                 {"op": "run", "program": "main", "in": {"x": "x", "language": "language"}, "out": {"y": "y"}}]
        (support.SCRATCH / "two.json").write_text(json.dumps({
            "mlc_pipeline": 1, "inputs": {"language": {"accept": ["application/x-npy"]}, "speech": {"accept": ["audio/wav"]}}, "steps": steps, "outputs": ["y"]}))
        file = support.container("two", "--pipeline", str(support.SCRATCH / "two.json"))
        made = io.BytesIO()
        with wave.open(made, "wb") as sound:
            sound.setparams((1, 2, 100, 0, "NONE", ""))
            sound.writeframes(np.array([0, 16384, -16384, 8192], np.int16).tobytes())
        speech = base64.b64encode(made.getvalue()).decode()
        self.assertEqual(self.ask(file, {"speech": speech, "language": [3]}), (200, {"y": [0, 0.5, -0.5, 0.25, 3]}))
        self.refused(file, made.getvalue(), "the body is no JSON", "language, speech expected")
        self.refused(file, {"speech": "/etc/passwd", "language": [3]})
        self.refused(file, {"speech": "no base64!", "language": [3]}, "input 'speech': ")
