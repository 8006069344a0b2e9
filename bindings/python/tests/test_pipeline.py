"""Files in, answers out, through the pipeline of the container."""
import unittest

import support

import numpy as np

import mlrt


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


if __name__ == "__main__":
    unittest.main()
