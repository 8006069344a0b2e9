"""Arrays that stay on a device, and what shares them. Skipped where there is no device of Vulkan, lavapipe being one."""
import json
import struct
import unittest

import numpy as np

import support
from support import node

import mlrt


class Shared:
    """A value of another library: all that it has is the protocol. `old`: as before versions."""

    def __init__(self, tensor, old=False):
        self.tensor, self.old = tensor, old

    def __dlpack__(self, **options):
        if self.old and options:
            raise TypeError("no such parameter")
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        w = support.onnx_file.tensor("w", "f32", [24, 24], struct.pack("<576f", *((k * 29 % 53 - 26) / 100 for k in range(576))))
        name = "on_device"
        path = support.SCRATCH / f"{name}.onnx"
        path.write_bytes(support.onnx_file.model([node("MatMul", ["x", "w"], ["z"]), node("Tanh", ["z"], ["y"])],
                                                 [support.port("x", "f32", ["n", 24])], [support.port("y", "f32", None)], [w], 17))
        cls.file = support.container(name, targets="vulkan,native")
        try:
            cls.model = mlrt.open(cls.file, devices="gpu", probe_program=support.BIN / "mlrun", require="vulkan")
        except mlrt.Error as error:
            support.skip(f"arrays on a device ({error.message})")
        cls.session = cls.model.session()
        cls.x = np.linspace(-1, 1, 72, dtype=np.float32).reshape(3, 24)

    def test_what_a_run_leaves_on_the_device_the_next_one_takes(self):
        self.assertEqual(self.session.info()["device"], "gpu0")
        want = self.x
        given = self.x
        for _ in range(4):
            want = self.session.run(x=want)["y"]
            given = self.session.run(x=given, tensors="device")["y"]
            self.assertIsInstance(given, mlrt.DeviceTensor)
        self.assertEqual((given.shape, given.dtype, given.nbytes, given.device, given.note), ((3, 24), "f32", 288, "gpu0", None))
        np.testing.assert_array_equal(given.numpy(), want)
        np.testing.assert_array_equal(np.asarray(given.host()), want)
        self.assertEqual(self.session.info()["note"], "")
        other = self.model.run_async(x=given, tensors="device").result(60)["y"]
        np.testing.assert_array_equal(other.numpy(), self.session.run(x=want)["y"])

    def test_programs_run_on_devices_of_their_own(self):
        steps = [{"op": "run", "program": "first", "in": {"x": "rows"}, "out": {"y": "once"}},
                 {"op": "run", "program": "second", "in": {"x": "once"}, "out": {"y": "twice"}}]
        pipeline = {"mlc_pipeline": 1, "programs": {"first": "on_device.onnx", "second": "on_device.onnx"},
                    "inputs": {"rows": {"accept": ["application/x-npy"]}}, "steps": steps, "outputs": ["twice"]}
        path = support.SCRATCH / "apart.json"
        path.write_text(json.dumps(pipeline))
        model = mlrt.open(support.container(str(path), targets="vulkan,native"), devices="first=gpu0;second=cpu;default=gpu0",
                          probe_program=support.BIN / "mlrun")
        session = model.session()
        found = {name: session.program_info(name) for name in model.programs}
        self.assertEqual({name: info["device"] for name, info in found.items()}, {"first": "gpu0", "second": "", "default": "gpu0"})
        self.assertEqual({name for name, info in found.items() if info["variant"] == found["first"]["variant"]}, {"first", "default"})
        self.assertEqual([(p["variant"], p["device"]) for p in model.explain()["programs"]],
                         [(found[name]["variant"], found[name]["device"]) for name in model.programs])
        for name in ("first", "second"):
            np.testing.assert_allclose(session.run(program=name, raw=True, x=self.x)["y"], self.session.run(x=self.x)["y"], rtol=1e-5, atol=1e-6)

    def test_it_is_shared_by_dlpack_both_ways(self):
        y = self.session.run(x=self.x, tensors="device")["y"]
        want = self.session.run(x=y.numpy())["y"]
        self.assertEqual(y.__dlpack_device__(), (7, 0))
        for value in (Shared(y), Shared(y, old=True)):
            np.testing.assert_array_equal(self.session.run(x=value)["y"], want)
        self.assertEqual(self.session.info()["note"], "")
        capsule = y.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
        self.assertIn("dltensor_versioned", repr(capsule))
        with self.assertRaises(BufferError):
            y.__dlpack__(dl_device=(2, 0))
        with self.assertRaises(BufferError):
            y.__dlpack__(copy=True)
        del y  # what was shared stays
        del capsule

    def test_the_processor_gets_a_copy_and_says_so(self):
        y = self.session.run(x=self.x, tensors="device")["y"]
        on_processor = mlrt.open(self.file).session()
        found = on_processor.run(x=y)["y"]
        np.testing.assert_allclose(found, self.session.run(x=y)["y"], rtol=1e-5, atol=1e-6)
        self.assertIn("'x' is copied between gpu0 and the host: runs are on the processor", on_processor.info()["note"])
        here = on_processor.run(x=self.x, tensors="device")["y"]
        self.assertEqual((here.device, here.__dlpack_device__()), ("", (1, 0)))
        np.testing.assert_array_equal(np.from_dlpack(here), here.numpy())

    def test_what_is_not_there_is_refused(self):
        y = self.session.run(x=self.x, tensors="device")["y"]
        with self.assertRaises(mlrt.InputMismatch) as caught:
            mlrt.open(self.file).session().run(x=Shared(y))
        self.assertIn("the session runs on the processor", caught.exception.message)
        with self.assertRaises(ValueError):
            self.session.run(x=self.x, tensors="somewhere")
        with self.assertRaises(mlrt.InputMismatch):
            self.session.run(x=self.session.run(x=self.x[:, :24], tensors="device")["y"], nothing=y)


if __name__ == "__main__":
    unittest.main()
