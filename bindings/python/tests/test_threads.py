"""Threads, the end of runs, and what is left behind."""
import ctypes
import gc
import os
import resource
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import support

import numpy as np

import mlrt


class Threads(unittest.TestCase):
    def test_eight_threads_on_one_model_give_equal_answers(self):
        model = mlrt.open(support.digits())
        images = [np.random.default_rng(i).random((1 + i % 3, 1, 28, 28), np.float32) for i in range(32)]
        alone = [model.run(image=x)["logits"] for x in images]
        picture = model(support.PICTURE)
        start = threading.Barrier(8)

        def work(k):
            start.wait()
            return [model.run(image=x)["logits"] for x in images], model(support.PICTURE)

        with ThreadPoolExecutor(8) as pool:
            for together, answer in pool.map(work, range(8)):
                for a, b in zip(alone, together):
                    np.testing.assert_array_equal(a, b)
                self.assertEqual(answer, picture)

    def test_a_cancelled_token_stays_cancelled(self):
        model = mlrt.open(support.relu())
        token = mlrt.Cancel()
        self.assertFalse(token.cancelled)
        model.run(x=[1, 2, 3, 4], cancel=token)
        token.cancel()
        self.assertTrue(token.cancelled)
        with self.assertRaises(mlrt.Cancelled) as caught:
            model.run(x=[1, 2, 3, 4], cancel=token)
        self.assertEqual(caught.exception.code, 8)
        self.assertEqual(model.run(x=[1, 2, 3, 4])["y"].tolist(), [1, 2, 3, 4])

    def test_a_run_has_a_time_limit(self):
        model = mlrt.open(support.square(), variant="portable", memory_limit=float("inf"))
        x = np.ones((4000, 4000), np.float32)
        with self.assertRaises(mlrt.Cancelled) as caught:
            model.run(x=x, time_limit=0.01)
        self.assertEqual(caught.exception.number, "E6004")
        with self.assertRaises(mlrt.Cancelled):
            model.session(time_limit=0.01).run(x=x)

    def test_no_lock_is_held_while_running(self):
        """Another thread finds the session in use, and ends a run that would take minutes."""
        session = mlrt.open(support.square(), variant="portable", memory_limit=float("inf")).session()
        token = mlrt.Cancel()
        ended = []

        def work():
            while not ended:  # until it is this thread that runs
                try:
                    session.run(x=np.ones((4000, 4000), np.float32), cancel=token)
                    ended.append(None)
                except mlrt.Cancelled as error:
                    ended.append(error)
                except mlrt.UsageError:
                    pass

        thread = threading.Thread(target=work)
        thread.start()
        try:
            with self.assertRaises(mlrt.UsageError) as caught:
                while True:
                    session.run(x=np.ones((2, 2), np.float32))
        finally:
            token.cancel()
            thread.join()
        self.assertIn("another thread", caught.exception.message)
        self.assertIsInstance(ended[0], mlrt.Cancelled)
        self.assertEqual(session.run(x=np.ones((2, 2), np.float32))["y"].tolist(), [[2, 2], [2, 2]])


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def calm():
    """Without huge pages, which the kernel makes whenever it likes, the resident memory says what is used."""
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Leaks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        calm()
        gc.disable()  # nothing waits for it to be found
        cls.addClassCleanup(gc.enable)

    def test_a_thousand_models_leave_nothing(self):
        path, data = support.digits(), support.PICTURE.read_bytes()
        x = np.zeros((1, 1, 28, 28), np.float32)

        def once(i):
            model = mlrt.open(path, threads=1)
            model.run(image=x)
            if i % 10 == 0:
                model(data)
            try:
                model.run(image=x[:, :, :5])
            except mlrt.InputMismatch:
                pass

        for i in range(100):  # what is allocated once
            once(i)
        files, memory, threads = descriptors(), resident(), threading.active_count()
        for i in range(1000):
            once(i)
        self.assertEqual(descriptors(), files)
        self.assertEqual(threading.active_count(), threads)
        self.assertLess(resident() - memory, 1 << 20)  # 1 KiB for each of them would be a leak

    def test_runs_leave_nothing(self):
        model = mlrt.open(support.relu(), threads=1)
        x = np.zeros(4, np.float32)

        def rounds(count):
            for _ in range(count):
                model.run(x=x)
                np.from_dlpack(model.run(x=mlrt._core.zeros("f32", [4]), tensors=True)["y"])
                model.run(x=[1, 2, 3, 4])

        rounds(1000)
        memory = resident()
        rounds(20000)
        self.assertLess(resident() - memory, 1 << 20)


if __name__ == "__main__":
    unittest.main()
