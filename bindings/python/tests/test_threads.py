"""Threads, the end of runs, and what is left behind."""
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

    def test_no_lock_is_held_while_running(self):
        """The main thread goes on, and ends a run that would take minutes."""
        model = mlrt.open(support.square(), variant="portable", memory_limit=float("inf"))
        token = mlrt.Cancel()
        caught = []

        def work():
            try:
                model.run(x=np.ones((4000, 4000), np.float32), cancel=token)
            except mlrt.Cancelled as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        token.cancel()
        thread.join()
        self.assertEqual(caught[0].code, 8)
        self.assertTrue(token.cancelled)
        with self.assertRaises(mlrt.Cancelled):  # a token stays cancelled
            model.run(x=np.ones((2, 2), np.float32), cancel=token)
        self.assertEqual(model.run(x=np.ones((2, 2), np.float32))["y"].tolist(), [[2, 2], [2, 2]])

    def test_a_run_has_a_time_limit(self):
        model = mlrt.open(support.square(), variant="portable", memory_limit=float("inf"))
        x = np.ones((4000, 4000), np.float32)
        with self.assertRaises(mlrt.Cancelled) as caught:
            model.run(x=x, time_limit=0.01)
        self.assertEqual(caught.exception.number, "E6004")
        with self.assertRaises(mlrt.Cancelled):
            model.session(time_limit=0.01).run(x=x)

    def test_a_session_in_use_says_so(self):
        session = mlrt.open(support.square(), variant="portable", memory_limit=float("inf")).session()
        token = mlrt.Cancel()

        def work():
            while not token.cancelled:  # until it is this thread that runs
                try:
                    session.run(x=np.ones((4000, 4000), np.float32), cancel=token)
                except (mlrt.UsageError, mlrt.Cancelled):
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


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Leaks(unittest.TestCase):
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
        gc.collect()
        files, memory, threads = descriptors(), resident(), threading.active_count()
        for i in range(1000):
            once(i)
        gc.collect()
        self.assertEqual(descriptors(), files)
        self.assertEqual(threading.active_count(), threads)
        self.assertLess(resident() - memory, 4 << 20)  # 4 KiB for each of them would be a leak

    def test_runs_leave_nothing(self):
        model = mlrt.open(support.relu(), threads=1)
        x = np.zeros(4, np.float32)

        def rounds(count):
            for _ in range(count):
                model.run(x=x)
                np.from_dlpack(model.run(x=mlrt._core.zeros("f32", [4]), tensors=True)["y"])
                model.run(x=[1, 2, 3, 4])

        rounds(1000)
        gc.collect()
        memory = resident()
        rounds(20000)
        gc.collect()
        self.assertLess(resident() - memory, 2 << 20)


if __name__ == "__main__":
    unittest.main()
