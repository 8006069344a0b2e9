"""Files in, answers out, through the pipeline of the container."""
import io
import json
import struct
import unittest
import wave
import zlib

import support

import numpy as np

import mlrt


def png(pixels):
    """A file of a gray picture."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = mlrt.open(support.digits())

    def test_a_picture_is_answered_with_labels(self):
        answers = self.model.run(picture=support.PICTURE)
        best = answers["digits"][0]
        self.assertEqual((best.label, best.index), ("3", 3))
        self.assertGreater(best.score, 0.5)
        self.assertEqual(len(answers["digits"]), 3)
        label, score = best
        self.assertEqual((label, score), (best.label, best.score))

    def test_paths_texts_and_bytes_are_the_same_file(self):
        expected = self.model.run(picture=support.PICTURE)
        data = support.PICTURE.read_bytes()
        for given in (str(support.PICTURE), data, bytearray(data)):
            self.assertEqual(self.model.run(picture=given), expected)
        self.assertEqual(self.model(support.PICTURE), expected["digits"])
        self.assertEqual(self.model.session()(data), expected["digits"])

    def test_top_says_how_many_classes(self):
        self.assertEqual(len(self.model(support.PICTURE, top=7)), 7)
        self.assertEqual(len(self.model(support.PICTURE, top=np.int64(7))), 7)
        for top, error in ((-1, ValueError), (10**7, ValueError), ("3", TypeError), (2.0, TypeError), (None, TypeError)):
            with self.assertRaisesRegex(error, "^top is .*, expected"):
                self.model(support.PICTURE, top=top)
            with self.assertRaisesRegex(error, "^top is .*, expected"):
                self.model.run_async(support.PICTURE, top=top)

    def test_a_pipeline_says_what_it_takes_and_gives(self):
        self.assertEqual(self.model.pipeline_inputs["picture"].accept, ("image/png", "image/jpeg"))
        self.assertEqual(self.model.pipeline_outputs["digits"].kind, "classes")
        self.assertIsNone(mlrt.open(support.relu()).pipeline_inputs)

    def test_what_does_not_fit_is_told(self):
        with self.assertRaises(mlrt.InputMismatch) as caught:
            self.model.run(picture=b"no picture at all")
        self.assertEqual(caught.exception.number, "E4001")
        self.assertIn("image/png, image/jpeg", caught.exception.facts[0])
        with self.assertRaises(mlrt.InputMismatch) as caught:
            self.model.run(photo=support.PICTURE)
        self.assertEqual(len(caught.exception.facts), 2)  # what is unknown, and what is missing
        with self.assertRaises(mlrt.Error):
            self.model.run(picture=support.PICTURE.read_bytes()[:200])
        with self.assertRaises(FileNotFoundError):
            self.model.run(picture="nothing.jpg")
        with self.assertRaises(mlrt.UsageError):
            mlrt.open(support.relu()).run(support.PICTURE)
        with self.assertRaises(mlrt.UsageError):
            self.model.run(picture=support.PICTURE, pipeline="other")

    def test_what_is_not_one_file_is_told(self):
        with open(support.PICTURE, "rb") as file:
            for given, word in (([support.PICTURE] * 2, "a list of 2: answer them one by one"), ((str(support.PICTURE),), "a list of 1"),
                                ([b"x"], "a list of 1"), (None, "found None"), (file, "an open file: its path, or what read")):
                with self.assertRaisesRegex(TypeError, "^'picture' takes a path, .*" + word):
                    self.model.run(picture=given)
                if given is not None:
                    with self.assertRaisesRegex(TypeError, "^the input takes a path, .*" + word):
                        self.model(given)

    def test_a_decoded_picture_is_answered_like_its_file(self):
        pixels = np.random.default_rng(1).integers(0, 256, (40, 30, 1), np.uint8)
        file = png(pixels)
        expected = self.model.run(picture=file)
        self.assertEqual(self.model.run(picture=pixels), expected)
        self.assertEqual(self.model(pixels), expected["digits"])
        with self.assertRaises(mlrt.InputMismatch) as caught:
            self.model.run(picture=np.zeros((9, 7, 3), np.uint8))
        self.assertIn("u8[height,width,1]", caught.exception.facts[0])

    def test_arrays_feed_the_program(self):
        self.assertEqual(list(self.model.run(image=np.zeros((1, 1, 28, 28), np.float32))), ["logits"])


class Text(unittest.TestCase):
    def test_the_line_of_text_is_read(self):
        source = support.MODELS / "ppocr_v4_rec.onnx"
        if not source.is_file():
            support.skip("the line of text (ppocr_v4_rec.onnx is not here)")
        path = support.container(str(source), "--pipeline", str(support.ROOT / "examples/ocr/pipeline.json"), targets="native")
        model = mlrt.open(path)
        line = model(support.MODELS / "text_line.png")
        self.assertEqual(line.text, "PORTABLE MODELS 2026")
        self.assertGreater(line.score, 0.9)
        self.assertEqual(model.run(line=support.MODELS / "text_line.png")["text"], line)


class Faces(unittest.TestCase):
    def test_a_face_is_a_box_and_the_picture_a_file(self):
        source = support.MODELS / "ultraface_rfb_320.onnx"
        if not source.is_file():
            support.skip("the face (ultraface_rfb_320.onnx is not here)")
        path = support.container(str(source), "--pipeline", str(support.ROOT / "examples/faces/pipeline.json"), targets="native")
        model = mlrt.open(path)
        self.assertEqual({name: out.kind for name, out in model.pipeline_outputs.items()}, {"faces": "boxes", "drawn": "image"})
        answers = model.run(photo=support.MODELS / "face.png")
        face, = answers["faces"]
        self.assertEqual((face.label, face.class_index), ("face", 0))
        self.assertGreater(face.score, 0.99)
        np.testing.assert_allclose(np.array(face[3:]) / 512, (0.3508, 0.1201, 0.5233, 0.3395), atol=2e-3)
        self.assertEqual(answers["drawn"][:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(model.run(photo=np.zeros((9, 7, 3), np.uint8))["faces"], [])


class Chunks(unittest.TestCase):
    HOP, CONTEXT = 4, 3

    @classmethod
    def setUpClass(cls):
        from onnx_file import model, node, port, tensor
        width = cls.HOP + cls.CONTEXT
        nodes = [node("Concat", ["x", "state"], ["both"], axis=1), node("MatMul", ["x", "ones"], ["sum"]), node("Mul", ["state", "half"], ["less"]),
                 node("Add", ["less", "sum"], ["next"])]
        constants = [tensor("ones", "f32", [width, 1], np.ones(width, np.float32).tobytes()), tensor("half", "f32", [], np.float32(0.5).tobytes())]
        (support.SCRATCH / "sums.onnx").write_bytes(model(nodes, [port("x", "f32", [1, width]), port("state", "f32", [1, 2])],
                                                          [port("both", "f32", [1, width + 2]), port("next", "f32", [1, 2])], constants))
        steps = [{"op": "decode_audio", "in": "speech", "channels": "first", "rate": 100}, {"op": "new_axis", "at": 0, "out": "x"},
                 {"op": "run", "program": "main", "in": {"x": "x", "state": "state"}, "out": {"both": "both", "next": "next"}}]
        stream = {"input": "speech", "hop": cls.HOP, "context": cls.CONTEXT, "last": "pad", "carry": {"state": "next"}}
        (support.SCRATCH / "sums.json").write_text(json.dumps({"mlc_pipeline": 1, "inputs": {"speech": {"accept": ["audio/wav"]}}, "stream": stream,
                                                               "steps": steps, "outputs": ["both"]}))
        cls.model = mlrt.open(support.container("sums", "--pipeline", str(support.SCRATCH / "sums.json")))
        cls.samples = np.random.default_rng(3).integers(-200, 200, 18).astype(np.int16)

    def wav(self):
        data = self.samples.tobytes()
        return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 100, 200, 2, 16) + b"data" +
                struct.pack("<I", len(data)) + data)

    def expected(self):
        rows, state = [], np.zeros(2, np.float32)
        around = np.concatenate([np.zeros(self.CONTEXT), self.samples / 32768, np.zeros(self.HOP)]).astype(np.float32)
        for at in range(0, len(self.samples), self.HOP):
            window = around[at:at + self.HOP + self.CONTEXT]
            rows.append(np.concatenate([window, state]))
            state = state / 2 + window.sum()
        return np.array(rows)

    def test_pieces_of_any_length_give_the_same_chunks(self):
        sound, want = (self.samples / 32768).astype(np.float32), self.expected()
        np.testing.assert_array_equal(self.model.run(speech=self.wav())["both"], want[:, None])
        for size in (1, 4, 5, 18):
            pieces = (sound[at:at + size] for at in range(0, len(sound), size))
            chunks = list(self.model.stream(speech=pieces))
            np.testing.assert_array_equal([chunk["both"][0] for chunk in chunks], want)
            self.assertEqual([chunk.start for chunk in chunks], [0.0, 0.04, 0.08, 0.12, 0.16])
        self.assertEqual(len(list(self.model.stream(sound.astype(np.float64)))), 5)

    def test_a_stream_is_pushed_finished_and_begun_again(self):
        sound, want = (self.samples / 32768).astype(np.float32), self.expected()
        stream = self.model.stream()
        self.assertEqual((stream.input, stream.rate, stream.hop, stream.context, stream.pads), ("speech", 100, 4, 3, True))
        for _ in range(2):
            self.assertEqual(stream.push(sound[:3]), [])
            chunks = stream.push(sound[3:9]) + stream.push(sound[9:])
            self.assertEqual(len(chunks), 4)
            chunks += stream.finish()
            np.testing.assert_array_equal([chunk["both"][0] for chunk in chunks], want)
            with self.assertRaises(mlrt.UsageError):
                stream.push(sound)
            stream.reset()
        # Two at once do not see each other's state.
        one, other = self.model.stream(), self.model.stream()
        for at in range(0, 16, 4):
            a, b = one.push(sound[at:at + 4]), other.push(-sound[at:at + 4])
            np.testing.assert_array_equal(a[0]["both"], -b[0]["both"])

    def test_what_stands_beside_the_sound_is_given_once(self):
        from onnx_file import model, node, port
        (support.SCRATCH / "beside.onnx").write_bytes(model([node("Cast", ["language"], ["l"], to=1), node("Concat", ["x", "l"], ["y"], axis=0)],
                                                            [port("x", "f32", [4]), port("language", "i64", [1])], [port("y", "f32", [5])]))
        steps = [{"op": "decode_audio", "in": "speech", "channels": "first", "rate": 100, "out": "x"},
                 {"op": "run", "program": "main", "in": {"x": "x", "language": "language"}, "out": {"y": "y"}}]
        (support.SCRATCH / "beside.json").write_text(json.dumps({
            "mlc_pipeline": 1, "inputs": {"language": {"accept": ["application/x-npy"]}, "speech": {"accept": ["audio/wav"]}},
            "stream": {"input": "speech", "hop": 4, "last": "drop"}, "steps": steps, "outputs": ["y"]}))
        beside = mlrt.open(support.container("beside", "--pipeline", str(support.SCRATCH / "beside.json")))
        sound, three = (self.samples / 32768).astype(np.float32), np.array([3])
        want = [[*sound[at:at + 4], 3] for at in range(0, 16, 4)]
        np.testing.assert_array_equal([chunk["y"] for chunk in beside.stream(speech=sound, language=three)], want)
        np.testing.assert_array_equal(beside.run(speech=self.wav(), language=three)["y"], want)
        stream = beside.stream(language=three)
        for _ in range(2):  # it stays when the stream is reset
            np.testing.assert_array_equal([chunk["y"] for chunk in stream.push(sound)], want)
            stream.reset()
        with self.assertRaisesRegex(mlrt.InputMismatch, "language   missing"):
            beside.stream()
        with self.assertRaises(mlrt.UsageError):
            beside.stream(language=three, tongue=three)

    def test_what_does_not_fit_is_told(self):
        with self.assertRaisesRegex(TypeError, "divided by 32768"):
            self.model.stream().push(self.samples)
        with self.assertRaises(TypeError):
            self.model.stream().push(np.zeros((2, 2), np.float32))
        with self.assertRaises(mlrt.UsageError):
            self.model.stream(sound=[])
        with self.assertRaises(mlrt.NotFound):
            mlrt.open(support.digits()).stream()
        with self.assertRaises(mlrt.UsageError):
            mlrt.open(support.relu()).stream()


class Sounds(unittest.TestCase):
    """Rows of 8 samples, 4 apart, through a model that changes nothing, and added up: the sound, 4 samples later."""
    @classmethod
    def setUpClass(cls):
        from onnx_file import model, node, port
        (support.SCRATCH / "rows.onnx").write_bytes(model([node("Identity", ["x"], ["y"])], [port("x", "f32", [1, 8])], [port("y", "f32", [1, 8])]))
        hann = {"shape": "hann", "ends": "periodic"}
        stream = {"input": "noisy", "hop": 4, "context": 4, "last": "pad", "carry": {"before": {"from": "rest", "shape": [4]}}}
        steps = [{"op": "decode_audio", "in": "noisy", "channels": "mean", "rate": 100}, {"op": "window", **hann}, {"op": "new_axis", "at": 0, "out": "x"},
                 {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "y"}},
                 {"op": "overlap_add", "in": "y", "hop": 4, "center": "none", "window": hann, "before": "before", "out": {"sound": "sound", "rest": "rest"}},
                 {"op": "wav_out", "in": "sound", "rate": 100, "out": "clean"}]
        (support.SCRATCH / "rows.json").write_text(json.dumps({"mlc_pipeline": 1, "inputs": {"noisy": {"accept": ["audio/wav"]}}, "stream": stream,
                                                               "steps": steps, "outputs": ["clean", "sound"]}))
        cls.model = mlrt.open(support.container("rows", "--pipeline", str(support.SCRATCH / "rows.json")))
        cls.samples = np.random.default_rng(4).integers(-20000, 20000, 18).astype(np.int16)
        cls.want = np.concatenate([np.zeros(4), cls.samples[:16]])

    def read(self, data, count):
        self.assertIsInstance(data, bytes)
        file = wave.open(io.BytesIO(data))
        self.assertEqual((file.getnchannels(), file.getsampwidth(), file.getframerate(), file.getnframes()), (1, 2, 100, count))
        return np.frombuffer(file.readframes(count), np.int16)

    def test_a_sound_in_is_a_sound_out(self):
        made = io.BytesIO()
        with wave.open(made, "wb") as file:
            file.setparams((1, 2, 100, 0, "NONE", ""))
            file.writeframes(self.samples.tobytes())
        self.assertEqual({name: answer.kind for name, answer in self.model.pipeline_outputs.items()}, {"clean": "sound", "sound": "array"})
        answers = self.model.run(noisy=made.getvalue())
        self.assertEqual(answers["sound"].shape, (5, 4))
        np.testing.assert_allclose(self.read(answers["clean"], 20), self.want, atol=1)

    def test_samples_are_answered_like_their_file(self):
        made = io.BytesIO()
        with wave.open(made, "wb") as file:
            file.setparams((2, 2, 100, 0, "NONE", ""))
            file.writeframes(self.samples.tobytes())
        expected, frames = self.model.run(noisy=made.getvalue()), self.samples.reshape(-1, 2)
        self.assertEqual(self.model.pipeline_inputs["noisy"].rate, 100)
        for given in (frames, (frames, 100), (frames / 32768, 100.0), np.float32(frames / 32768), np.asfortranarray(frames), (np.float64(frames / 32768), np.int64(100))):
            for answers in (self.model.run(noisy=given), self.model.run(given)):
                self.assertEqual(answers["clean"], expected["clean"])
                np.testing.assert_array_equal(answers["sound"], expected["sound"])
        self.assertEqual(self.model.run(noisy=frames.mean(axis=1) / 32768)["clean"], expected["clean"])

    def test_samples_that_do_not_fit_are_told(self):
        with self.assertRaisesRegex(mlrt.InputMismatch, "audio has 44100 samples per second, the pipeline takes 100") as caught:
            self.model.run(noisy=(self.samples, 44100))
        self.assertEqual(caught.exception.number, "E4001")
        for wrong in (self.samples.astype(np.int32), self.samples[None, None], np.zeros((2, 500), np.float32)):
            with self.assertRaisesRegex(mlrt.InputMismatch, r"expected audio/wav, or samples, f32, f64 or i16: \[samples\] or \[samples,channels\]"):
                self.model.run(noisy=wrong)
        for wrong, word in (((100, self.samples), "found int and ndarray"), ((b"RIFF", 100), "found bytes and int"), ((self.samples, 100, 1), "found 3 of them"),
                            ((self.samples, "100"), "found ndarray and str")):
            with self.assertRaisesRegex(TypeError, r"^'noisy' takes a file, samples, or \(samples, rate\), .*" + word):
                self.model.run(noisy=wrong)

    def test_each_chunk_of_a_stream_has_its_part(self):
        sound = (self.samples / 32768).astype(np.float32)
        stream = self.model.stream()
        chunks = stream.push(sound[:7]) + stream.push(sound[7:]) + stream.finish()
        np.testing.assert_allclose(np.concatenate([self.read(chunk["clean"], 4) for chunk in chunks]), self.want, atol=1)
        np.testing.assert_allclose(np.concatenate([chunk["sound"] for chunk in chunks]) * 32768, self.want, atol=1)


class Words(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import text_model
        cls.text_model, cls.weights = text_model, text_model.Weights()
        (support.SCRATCH / "tokenizer.json").write_text(text_model.tokenizer())
        (support.SCRATCH / "sentences.onnx").write_bytes(text_model.model(cls.weights))
        run = {"op": "run", "program": "main", "in": {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "types"},
               "out": {"last_hidden_state": "hidden"}}
        steps = [{"op": "tokenize", "in": "text", "tokenizer": "tokenizer.json", "special_tokens": True, "truncate": {"max": 16, "side": "right"},
                  "pad": {"to": "longest", "side": "right", "id": 0}, "out": {"ids": "ids", "mask": "mask", "type_ids": "types"}},
                 run, {"op": "pool", "mask": "mask", "how": "mean"}, {"op": "normalize", "norm": "l2", "out": "embedding"}]
        pipeline = {"mlc_pipeline": 1, "inputs": {"text": {"accept": ["text/plain"]}}, "steps": steps, "outputs": ["embedding"]}
        (support.SCRATCH / "sentences.json").write_text(json.dumps(pipeline))
        cls.model = mlrt.open(support.container("sentences", "--pipeline", str(support.SCRATCH / "sentences.json")))

    def expected(self, *ids):
        return self.text_model.embedding(self.weights, ids, [0] * len(ids), [1] * len(ids))

    def test_a_string_is_a_text_and_a_list_is_a_batch(self):
        hello, empty = self.expected(2, 4, 5, 3), self.expected(2, 3)
        np.testing.assert_allclose(self.model.run(text="Hello world")["embedding"], [hello], atol=1e-5)
        np.testing.assert_allclose(self.model.run(text=["Hello world", ""])["embedding"], [hello, empty], atol=1e-5)
        np.testing.assert_allclose(self.model("Hello world"), [hello], atol=1e-5)
        np.testing.assert_allclose(self.model(["", "hello world"]), [empty, hello], atol=1e-5)
        np.testing.assert_allclose(self.model.run(text=b"Hello world")["embedding"], [hello], atol=1e-5)
        self.assertEqual(self.model.run(text=[])["embedding"].shape, (0, 8))
        self.assertEqual(self.model.pipeline_inputs["text"].accept, ("text/plain",))

    def test_a_path_is_a_file_of_a_text(self):
        path = support.SCRATCH / "hello.txt"
        path.write_text("Hello world")
        np.testing.assert_allclose(self.model(path), [self.expected(2, 4, 5, 3)], atol=1e-5)
        with self.assertRaises(mlrt.InputMismatch) as caught:
            self.model.run(text=b"Hello \xff")
        self.assertIn("byte 6", str(caught.exception))
        with self.assertRaises(TypeError):
            self.model.run(text=np.zeros(3, np.int64))


class Files(unittest.TestCase):
    """Files of any kind, of which a pipeline takes bytes at the ends."""
    @classmethod
    def setUpClass(cls):
        from onnx_file import model, node, port
        (support.SCRATCH / "bytes.onnx").write_bytes(model([node("Identity", ["x"], ["y"])], [port("x", "i32", ["n"])], [port("y", "i32", ["n"])]))
        part = {"within": 8, "strip": "white space", "length": 4}
        steps = [{"op": "file_bytes", "in": "file", "fill": 256, "parts": [{"of": "start", **part}, {"of": "end", **part}], "out": "x"},
                 {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "y"}}]
        pipeline = {"mlc_pipeline": 1, "inputs": {"file": {"accept": ["application/octet-stream"]}}, "steps": steps, "outputs": ["y"]}
        (support.SCRATCH / "bytes.json").write_text(json.dumps(pipeline))
        cls.model = mlrt.open(support.container("bytes", "--pipeline", str(support.SCRATCH / "bytes.json")))

    def test_a_path_and_bytes_and_an_array_are_a_file(self):
        path = support.SCRATCH / "any.bin"
        for data in (b" abc ", b"", b"\x93NUMPY and so on", bytes(range(256))):
            expected = (list(data[:8].lstrip()[:4]) + [256]*4)[:4] + ([256]*4 + list(data[-8:].rstrip()[-4:]))[-4:]
            path.write_bytes(data)
            for given in (path, str(path), data, bytearray(data), np.frombuffer(data, np.uint8)):
                np.testing.assert_array_equal(self.model.run(file=given)["y"], expected, str(given))
            np.testing.assert_array_equal(self.model(path), expected)
        self.assertEqual(self.model.pipeline_inputs["file"].accept, ("application/octet-stream",))

    def test_a_large_file_is_read_at_its_ends(self):
        path = support.SCRATCH / "large.bin"
        with open(path, "wb") as file:
            file.write(b"begin")
            file.seek(1 << 40)
            file.write(b"the end")
        np.testing.assert_array_equal(self.model(path), list(b"begi end"))


if __name__ == "__main__":
    unittest.main()
