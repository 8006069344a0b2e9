"""Arrays in, arrays out: types, shapes, who owns the memory, what errors say."""
import array
import subprocess
import sys
import textwrap
import unittest

import support
from support import ML, node

import numpy as np

import mlrt

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None


class Run(unittest.TestCase):
    def test_a_model_says_its_inputs_and_outputs(self):
        model = mlrt.open(support.digits())
        self.assertEqual(repr(model.inputs["image"]), "f32[N,1,28,28], N in 0..")
        self.assertEqual(model.inputs["image"].shape[0], ("N", 0, None))
        self.assertEqual(model.outputs["logits"].shape[1], 10)
        self.assertEqual(model.outputs["logits"].numpy_dtype, np.float32)
        self.assertEqual(set(model.programs), {"main", "default"})

    def test_a_run_gives_a_dict_of_arrays(self):
        out = mlrt.open(support.relu()).run(x=np.array([-1, 2, -3, 4], np.float32))
        self.assertEqual(list(out), ["y"])
        self.assertEqual(out["y"].dtype, np.float32)
        np.testing.assert_array_equal(out["y"], [0, 2, 0, 4])

    def test_names_that_are_no_words_of_python_come_in_a_dict(self):
        path = support.model("odd", [node("Relu", ["x.0"], ["y/0"])], [("x.0", "f32", [2])], [("y/0", "f32", [2])])
        np.testing.assert_array_equal(mlrt.open(path).run({"x.0": [-1, 1]})["y/0"], [0, 1])

    def test_names_are_texts_that_utf8_can_hold(self):
        model = mlrt.open(support.relu())
        for name, error in ((1, TypeError), (b"x", TypeError), ("\ud800", ValueError), ("x\0y", ValueError)):
            with self.subTest(name=name):
                self.assertRaises(error, model.run, {name: np.ones(4, np.float32)}, raw=True)
                self.assertRaises(error, lambda: model.run_async({name: np.ones(4, np.float32)}, raw=True).result())
        with self.assertRaises(mlrt.Error):
            mlrt.open("/tmp/\udc80 is not there.mlc")

    def test_what_cannot_be_held_is_an_error_and_the_next_run_goes_on(self):
        path = support.model("any_size", [node("Expand", ["x", "s"], ["y"])], [("x", "f32", [1]), ("s", "i64", [2])], [("y", "f32", ["a", "b"])])
        model = mlrt.open(path)
        for shape in ([0, 1 << 62], [1 << 40, 1 << 20]):
            for run in (model.run, lambda **given: model.run_async(**given).result(60)):
                with self.assertRaises((mlrt.Error, MemoryError)):
                    run(x=np.ones(1, np.float32), s=np.array(shape))
        self.assertEqual(model.run_async(x=np.ones(1, np.float32), s=np.array([2, 3])).result(60)["y"].shape, (2, 3))

    def test_every_type_of_numpy_goes_in_and_out(self):
        for short, dtype in (("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("i32", np.int32),
                             ("i64", np.int64)):
            out = mlrt.open(support.double(short)).run(x=np.array([1, 2, 3], dtype))["y"]
            self.assertEqual(out.dtype, dtype)
            np.testing.assert_array_equal(out, np.array([2, 4, 6], dtype))

    def test_bool_is_bool(self):
        path = support.model("not", [node("Not", ["x"], ["y"])], [("x", "bool", ["n"])], [("y", "bool", ["n"])])
        out = mlrt.open(path).run(x=np.array([True, False]))["y"]
        self.assertEqual(out.dtype, np.bool_)
        self.assertEqual(out.tolist(), [False, True])

    def test_bf16_is_that_of_ml_dtypes_or_its_bits(self):
        model = mlrt.open(support.double("bf16"))
        out = model.run(x=np.array([0x3F80, 0x4000], np.uint16))["y"]  # 1 and 2
        self.assertEqual(out.view(np.uint16).tolist(), [0x4000, 0x4080])
        if ml_dtypes is None:
            self.assertEqual(out.dtype, np.uint16)
            support.skip("bf16 of ml_dtypes, which is not installed")
        self.assertEqual(out.dtype, ml_dtypes.bfloat16)
        out = model.run(x=np.array([1, 2], ml_dtypes.bfloat16))["y"]
        self.assertEqual(out.astype(np.float32).tolist(), [2, 4])
        self.assertEqual(model.run(x=[1, 2])["y"].astype(np.float32).tolist(), [2, 4])

    def test_arrays_without_elements_keep_their_shape(self):
        out = mlrt.open(support.double("f32")).run(x=np.zeros(0, np.float32))["y"]
        self.assertEqual((out.shape, out.dtype), ((0,), np.float32))
        out = mlrt.open(support.digits()).run(image=np.zeros((0, 1, 28, 28), np.float32))["logits"]
        self.assertEqual(out.shape, (0, 10))

    def test_lists_numbers_and_buffers_become_arrays(self):
        model = mlrt.open(support.double("f32"))
        self.assertEqual(model.run(x=[1, 2.5])["y"].tolist(), [2, 5])
        self.assertEqual(model.run(x=array.array("f", [1, 2.5]))["y"].tolist(), [2, 5])
        scalar = support.model("scalar", [node("Neg", ["x"], ["y"])], [("x", "f32", [])], [("y", "f32", [])])
        out = mlrt.open(scalar).run(x=3)["y"]
        self.assertEqual((out.shape, float(out)), ((), -3.0))

    def test_strided_and_foreign_arrays_are_copied(self):
        model = mlrt.open(support.double("f32"))
        base = np.arange(6, dtype=np.float32)
        self.assertEqual(model.run(x=base[::2])["y"].tolist(), [0, 4, 8])
        self.assertEqual(model.run(x=base.astype(">f4"))["y"].tolist(), [0, 2, 4, 6, 8, 10])
        self.assertEqual(model.run(x=base[::-1])["y"].tolist(), [10, 8, 6, 4, 2, 0])
        base.flags.writeable = False
        self.assertEqual(model.run(x=base)["y"].tolist(), [0, 2, 4, 6, 8, 10])

    def test_strings_and_maps(self):
        words = node("LabelEncoder", ["x"], ["n"], "words", ML, keys_strings=["one", "zw\u00f6lf"],
                     values_floats=[1.0, 12.0], default_float=-1.0)
        path = support.model("words", [words, node("LabelEncoder", ["n"], ["y"], "back", ML, keys_floats=[1.0, 12.0],
                                                   values_strings=["eins", "dou\u00a0ze"], default_string="?")],
                             [("x", "str", ["n"])], [("y", "str", ["n"])], domains=[ML])
        model = mlrt.open(path)
        for given in (["one", "zw\u00f6lf", "x"], np.array(["one", "zw\u00f6lf", "x"]), [b"one", "zw\u00f6lf".encode(), b"x"],
                      np.array(["one", "zw\u00f6lf", "x"], object)):
            out = model.run(x=given)["y"]
            self.assertEqual(out.dtype, object)
            self.assertEqual(out.tolist(), ["eins", "dou\u00a0ze", "?"])
        self.assertEqual(model.run(x=[])["y"].shape, (0,))
        with self.assertRaises(TypeError):
            model.run(x=[1])

    def test_a_file_may_be_an_array_of_bytes(self):
        path = support.model("size", [node("Shape", ["x"], ["y"])], [("x", "u8", ["n"])], [("y", "i64", [1])])
        file = support.SCRATCH / "five.bin"
        file.write_bytes(b"12345")
        model = mlrt.open(path)
        for given in (file, str(file), b"12345"):
            self.assertEqual(model.run(x=given)["y"].tolist(), [5])

    def test_lists_of_arrays(self):
        grown = node("SequenceInsert", ["l", "x"], ["y"], "grow")
        path = support.model("grow", [grown], [support.onnx_file.list_of("l", "f32", 1), ("x", "f32", ["n"])],
                             [support.onnx_file.list_of("y", "f32", 1)])
        model = mlrt.open(path)
        self.assertEqual(repr(model.inputs["l"])[:11], "list of f32")
        one, two = np.array([1], np.float32), np.array([2, 3], np.float32)
        self.assertEqual([a.tolist() for a in model.run(l=[one, two], x=one)["y"]], [[1], [2, 3], [1]])
        self.assertEqual([a.tolist() for a in model.run(l=None, x=two)["y"]], [[2, 3]])
        self.assertEqual([a.tolist() for a in model.run(x=two)["y"]], [[2, 3]])


class Memory(unittest.TestCase):
    def test_dense_arrays_are_borrowed(self):
        for dtype in (np.float32, np.int64, np.bool_, np.float16):
            x = np.zeros((3, 4), dtype)
            self.assertEqual(mlrt._core.borrowed(x), (x.ctypes.data, x.nbytes))
        self.assertNotEqual(mlrt._core.borrowed(np.zeros((4, 4), np.float32)[:, 1])[0], 0)
        data = b"0123"
        self.assertEqual(mlrt._core.borrowed(data)[1], 4)

    def test_tensors_of_dlpack_are_borrowed(self):
        t = mlrt._core.zeros("f32", [2, 3])

        class Foreign:  # nothing but the protocol
            def __dlpack__(self, **options):
                return t.__dlpack__(**options)

            def __dlpack_device__(self):
                return t.__dlpack_device__()

        self.assertEqual(mlrt._core.borrowed(Foreign()), (t.pointer, 24))
        np.asarray(t)[:] = -1
        out = mlrt.open(support.model("relu6", [node("Relu", ["x"], ["y"])], [("x", "f32", [2, 3])],
                                      [("y", "f32", [2, 3])])).run(x=Foreign())["y"]
        self.assertEqual(out.tolist(), [[0] * 3] * 2)

        class Elsewhere(Foreign):
            def __dlpack_device__(self):
                return (2, 0)  # CUDA

        with self.assertRaises(mlrt.InputMismatch) as caught:
            mlrt._core.borrowed(Elsewhere())
        self.assertEqual(caught.exception.number, "E4001")
        self.assertIn("(2, 0)", caught.exception.facts[0])

    def test_outputs_are_seen_without_a_copy(self):
        tensor = mlrt.open(support.relu()).run(x=[1, 2, 3, 4], tensors=True)["y"]
        self.assertIsInstance(tensor, mlrt.Tensor)
        self.assertEqual((tensor.dtype, tensor.shape, tensor.nbytes), ("f32", (4,), 16))
        self.assertEqual(tensor.pointer % 64, 0)
        self.assertEqual(tensor.numpy().ctypes.data, tensor.pointer)
        self.assertEqual(np.asarray(tensor).ctypes.data, tensor.pointer)
        self.assertEqual(np.from_dlpack(tensor).ctypes.data, tensor.pointer)
        self.assertNotEqual(np.array(tensor, copy=True).ctypes.data, tensor.pointer)
        self.assertNotEqual(tensor.copy().pointer, tensor.pointer)
        array = np.from_dlpack(tensor)
        del tensor
        self.assertEqual(array.tolist(), [1, 2, 3, 4])  # which keeps it alive

    def test_outputs_of_numpy_are_exported_again(self):
        out = mlrt.open(support.relu()).run(x=[1, 2, 3, 4])["y"]
        self.assertEqual(np.from_dlpack(out).ctypes.data, out.ctypes.data)
        out[0] = 7  # it is the caller's

    def test_each_run_has_memory_of_its_own(self):
        for path, name in ((support.relu(), "x"), (support.double("f32"), "x")):
            session = mlrt.open(path).session()
            first = session.run({name: np.array([1, 2, 3, 4], np.float32)})["y"]
            before = first.copy()
            second = session.run({name: np.array([5, 6, 7, 8], np.float32)})["y"]
            np.testing.assert_array_equal(first, before)
            self.assertNotEqual(first.ctypes.data, second.ctypes.data)

    def test_memory_of_large_outputs_serves_the_next_run(self):
        session = mlrt.open(support.double("f32")).session()
        x = np.arange(1 << 19, dtype=np.float32)
        def run(n):
            tensor = session.run(x=x[:n], tensors=True)["y"]
            np.testing.assert_array_equal(tensor, x[:n] * 2)
            return tensor
        held = run(x.size)
        other = run(x.size)
        self.assertNotEqual(held.pointer, other.pointer)  # nobody's memory is taken away
        pointer, view = other.pointer, np.from_dlpack(other)
        del other
        third = run(x.size)
        self.assertNotIn(third.pointer, (pointer, held.pointer))  # the view holds it
        del view
        again = run(x.size - 5)  # nearly as large
        self.assertEqual(again.pointer, pointer)
        np.testing.assert_array_equal(held, x * 2)
        del again
        small = run(7)  # a run of small outputs keeps nothing
        del session, third
        np.testing.assert_array_equal(held, x * 2)
        self.assertEqual(small.shape, (7,))

    def test_results_live_longer_than_their_model(self):
        out = mlrt.open(support.relu()).run(x=[1, -2, 3, -4])["y"]
        self.assertEqual(out.tolist(), [1, 0, 3, 0])

    def test_aligned_arrays_can_be_had(self):
        for dtype in (np.float32, "bf16", "u8", np.bool_, np.int64):
            a = mlrt.empty((3, 5), dtype)
            self.assertEqual((a.ctypes.data % 64, a.shape), (0, (3, 5)))
        self.assertEqual(mlrt.empty(3).dtype, np.float32)
        with self.assertRaises(TypeError):
            mlrt.empty(3, np.complex64)

    def test_torch_sees_the_same_memory(self):
        if torch is None:
            support.skip("tensors of torch, which is not installed")
        x = torch.tensor([1.0, -2.0, 3.0, -4.0])
        self.assertEqual(mlrt._core.borrowed(x)[0], x.data_ptr())
        out = mlrt.open(support.relu()).run(x=x, tensors=True)["y"]
        self.assertEqual(torch.from_dlpack(out).data_ptr(), out.pointer)

    def test_a_container_may_lie_in_memory(self):
        data = support.relu().read_bytes()
        model = mlrt.open(data)
        del data
        self.assertEqual(model.run(x=[1, -1, 1, -1])["y"].tolist(), [1, 0, 1, 0])
        with self.assertRaises(mlrt.Malformed):
            mlrt.open(b"no container")


class Errors(unittest.TestCase):
    def test_an_input_that_does_not_fit_is_told_with_number_and_facts(self):
        model = mlrt.open(support.relu())
        with self.assertRaises(mlrt.InputMismatch) as caught:
            model.run(x=np.zeros(5, np.float32))
        error = caught.exception
        self.assertIsInstance(error, mlrt.Error)
        self.assertIsInstance(error, ValueError)
        self.assertEqual((error.code, error.number), (6, "E4001"))
        self.assertIn("x", error.message + " ".join(error.facts))
        self.assertIn("E4001", str(error))
        with self.assertRaises(mlrt.InputMismatch):
            model.run(x=np.zeros(4, np.int32))
        with self.assertRaises(mlrt.InputMismatch) as caught:
            model.run()
        self.assertTrue(any("x" in fact for fact in caught.exception.facts), caught.exception.facts)
        with self.assertRaises(mlrt.InputMismatch):
            model.run(z=np.zeros(4, np.float32))
        np.testing.assert_array_equal(model.run(x=[1, 2, 3, 4])["y"], [1, 2, 3, 4])  # as before

    def test_no_variant_says_why(self):
        for wish in ({"require": "cuda"}, {"variant": "portable", "require": "native"}):
            with self.assertRaises(mlrt.NoVariant) as caught:
                mlrt.open(support.relu(), **wish)  # not as late as the first run
            self.assertEqual(caught.exception.code, 5)
            self.assertTrue(caught.exception.facts)
            self.assertNotIn("--require", str(caught.exception))
        with self.assertRaises(mlrt.UsageError):
            mlrt.open(support.relu(), variant="x86-64-v9")
        with self.assertRaises(mlrt.NoVariant):
            mlrt.open(support.relu()).session(require="cuda")

    def test_integers_are_widened_and_never_cut(self):
        path = support.model("ids", [node("Identity", ["x"], ["y"])], [("x", "i64", ["n"])], [("y", "i64", ["n"])])
        model = mlrt.open(path)
        for given in (np.array([1, -2], np.int32), np.array([1, 2], np.uint8), array.array("h", [3, 4]), [5, -6], np.array([7, 8], np.int32)[::-1]):
            self.assertEqual(model.run(x=given)["y"].tolist(), list(given))
        with self.assertRaises(mlrt.InputMismatch):
            model.run(x=np.array([1, 2], np.uint64))  # which i64 does not hold
        with self.assertRaises(mlrt.InputMismatch):
            model.run(x=np.array([1, 2], np.float32))
        self.assertEqual(model.run(x=[1.0, 2.0])["y"].tolist(), [1, 2])
        for wrong in ([101, 7592.5, 102], [float("nan")], [1e30]):
            with self.assertRaises(mlrt.InputMismatch) as caught:
                model.run(x=wrong)
            self.assertIn("int64", str(caught.exception))

    def test_a_file_that_is_not_there(self):
        with self.assertRaises(mlrt.NotFound) as caught:
            mlrt.open(support.SCRATCH / "nothing.mlc")
        self.assertEqual(caught.exception.code, 3)
        self.assertIsInstance(caught.exception, FileNotFoundError)  # as `except OSError` expects
        self.assertIn("nothing.mlc", str(caught.exception))

    def test_a_file_that_nobody_trusts_runs_in_its_portable_form(self):
        path = support.relu()
        model = mlrt.open(path, config_folder="", state_folder="")
        self.assertTrue(model.session().info()["is_portable"])
        self.assertFalse(model.inspect()["native_allowed"])
        self.assertEqual(model.run(x=[1, -2, 3, -4])["y"].tolist(), [1, 0, 3, 0])
        with self.assertRaises(mlrt.NoVariant):
            mlrt.open(path, config_folder="", state_folder="", require="native")
        native = mlrt.open(path, config_folder="", state_folder="", allow_unsigned=True)
        self.assertFalse(native.session().info()["is_portable"])

    def test_strings_that_share_their_memory_do_not_fill_that_of_python(self):
        """A file that nobody trusts can name one long text a million times: what is copied has a bound."""
        wide = node("Expand", ["x", "n"], ["y"])
        path = support.model("wide", [wide], [("x", "str", [1]), ("n", "i64", [1])], [("y", "str", ["m"])])
        given = {"x": ["a" * 1000], "n": np.array([100000])}
        self.assertEqual(mlrt.open(path).run(given)["y"].shape, (100000,))
        with self.assertRaises(mlrt.ResourceError) as caught:
            mlrt.open(path, config_folder="", state_folder="").run(given)
        self.assertEqual(caught.exception.number, "E6006")
        self.assertIn("'y'", caught.exception.message)

    def test_keys_are_trusted_by_path_and_by_their_text(self):
        path = support.relu()
        key = next(iter((support.SCRATCH / "config/mlc/trust").glob("*.pem")))
        for keys in ([key], [str(key)], [key.read_bytes()], [key.read_text()]):
            self.assertTrue(mlrt.open(path, config_folder="", state_folder="", trust_keys=keys).inspect()["native_allowed"])

    def test_options_that_mean_nothing_are_refused(self):
        for options in ({"verify": "later"}, {"time_limit": 0}, {"memory_limit": -1}, {"time_limit": "1s"}, {"memory_limit": "1G"}, {"threads": -1}):
            with self.assertRaises(ValueError):
                mlrt.open(support.relu(), **options)
        with self.assertRaises(mlrt.UsageError):
            mlrt.open(support.relu()).run(program="other")

    def test_memory_has_a_limit(self):
        x = np.zeros((1 << 20) + 1, np.float32)[1:]  # 4 bytes behind a multiple of 16: never aligned as the library wants, so copied
        with self.assertRaises(mlrt.ResourceError) as caught:
            mlrt.open(support.double("f32"), memory_limit=1 << 20).run(x=x)
        self.assertEqual(caught.exception.code, 7)
        self.assertIsInstance(caught.exception, MemoryError)


class Sessions(unittest.TestCase):
    def test_a_session_says_what_runs(self):
        session = mlrt.open(support.relu()).session(variant="portable", threads=1)
        self.assertEqual(session.variant, "portable")
        self.assertEqual(session.info()["threads"], 1)

    def test_a_session_says_what_runs_each_program(self):
        model = mlrt.open(support.digits(), devices="main=cpu;cpu", probe_program=support.BIN / "mlrun")
        session = model.session(threads=1)
        for program in (None, *model.programs):
            self.assertEqual(session.program_info(program), session.info())
        self.assertEqual(session.program_info("main")["device"], "")
        self.assertEqual([p["name"] for p in model.explain()["programs"]], list(model.programs))
        for chosen in model.explain()["programs"]:
            self.assertEqual((chosen["variant"], chosen["device"]), (session.variant, ""))
        with self.assertRaises(mlrt.UsageError) as caught:
            session.program_info("mian")
        self.assertIn("it has default, main", " ".join(caught.exception.facts))
        for absent in (2, 2**32 - 1):
            self.assertRaises(mlrt.UsageError, session._runs.program_info, absent)
            self.assertRaises(mlrt.UsageError, model._handle.choose_for, absent, "", "")
        self.assertRaises(TypeError, session._runs.program_info, -1)
        with self.assertRaises(mlrt.UsageError) as caught:
            mlrt.open(support.digits(), devices="mian=cpu", probe_program=support.BIN / "mlrun")
        self.assertIn("the file has no program 'mian'", caught.exception.message)

    def test_a_container_of_one_program_says_what_runs_it(self):
        session = mlrt.open(support.relu()).session(variant="portable")
        self.assertEqual(session.program_info(), session.info())
        self.assertEqual(session.program_info("main")["variant"], "portable")
        self.assertRaises(mlrt.UsageError, session._runs.program_info, 1)

    def test_an_older_library_cannot_tell_what_runs_a_program(self):
        """In a process whose table says that it ends before the last functions, as that of an older library does."""
        program = textwrap.dedent("""
            import ctypes, mmap, pathlib, sys
            import mlrt
            library = ctypes.CDLL(str(pathlib.Path(mlrt.__file__).parent / "libmlrt-gpu.so.1"))
            library.mlc_get_api.restype = ctypes.c_void_p
            size = ctypes.c_uint32.from_address(library.mlc_get_api(1) + 4)
            page = ctypes.addressof(size) // mmap.PAGESIZE * mmap.PAGESIZE
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 3) == 0  # read and write
            size.value -= 2 * ctypes.sizeof(ctypes.c_void_p)
            model = mlrt.open(sys.argv[1])
            session = model.session()
            try:
                session.program_info()
            except mlrt.Unsupported as error:
                print(error.message)
            told = model.explain()
            print(session.variant == told["chosen"], told["programs"])
            """)
        done = subprocess.run([sys.executable, "-c", program, support.relu()], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "libmlrt is too old to tell what runs each program\n"
                                      "True [{'name': 'main', 'variant': None, 'device': None}]\n")

    def test_golden_vectors(self):
        model = mlrt.open(support.digits())
        result = model.selftest()
        self.assertGreaterEqual(result.vectors, 1)
        self.assertEqual(model.golden_inputs()["image"].shape[1:], (1, 28, 28))

    def test_a_profile_names_instructions(self):
        session = mlrt.open(support.relu()).session(profile=True)
        session.run(x=[1, 2, 3, 4])
        entries = session.profile()
        self.assertTrue(entries)
        self.assertTrue(all(runs == 1 for _, _, runs in entries), entries)

    def test_state_can_be_saved_and_restored(self):
        session = mlrt.open(support.relu()).session()
        session.run(x=[1, 2, 3, 4])
        try:
            saved = session.state_save()
        except mlrt.Unsupported as error:
            support.skip(f"state of sessions ({error.message})")
        session.state_reset()
        session.state_restore(saved)
        with self.assertRaises(mlrt.Error):
            session.state_restore(b"no state of this model")

    def test_explain_and_inspect(self):
        model = mlrt.open(support.relu())
        explained = model.explain()
        self.assertIn(explained["chosen"], [v["name"] for v in explained["variants"] if v["fits"] == "yes"])
        info = model.inspect()
        self.assertEqual(info["programs"][0]["inputs"]["x"].shape, (4,))
        self.assertTrue(info["root"].startswith("sha256:"))


if __name__ == "__main__":
    unittest.main()
