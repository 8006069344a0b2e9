"""Threads, the end of runs, and what is left behind."""
import asyncio
import ctypes
import gc
import os
import resource
import subprocess
import sys
import textwrap
import threading
import time
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
        x = np.ones((4000, 4000), np.float32)
        ended = []

        def work():
            while not ended:  # until it is this thread that runs
                try:
                    session.run(x=x, cancel=token)
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
                    time.sleep(0.01)  # the other thread's turn
        finally:
            token.cancel()
            thread.join()
        self.assertIn("another thread", caught.exception.message)
        self.assertIsInstance(ended[0], mlrt.Cancelled)
        self.assertEqual(session.run(x=np.ones((2, 2), np.float32))["y"].tolist(), [[2, 2], [2, 2]])


class Async(unittest.TestCase):
    def test_a_run_goes_on_by_itself_and_is_a_future(self):
        model = mlrt.open(support.relu())
        runs = [model.run_async(x=[i, -1, 2, -3]) for i in range(50)]
        for i, run in enumerate(runs):
            self.assertEqual(run.result(60)["y"].tolist(), [i, 0, 2, 0])
            self.assertTrue(run.done())
        session = model.session()
        self.assertEqual(session.run_async({"x": [1, 2, 3, 4]}).result(60)["y"].tolist(), [1, 2, 3, 4])
        self.assertEqual(session.run(x=[1, 2, 3, 4])["y"].tolist(), [1, 2, 3, 4])  # free again
        with self.assertRaises(mlrt.InputMismatch):
            model.run_async(x=np.zeros((2, 2), np.float32)).result(60)
        del session, model  # the run keeps what it needs
        run = mlrt.open(support.relu()).run_async(x=[1, 2, 3, 4])
        gc.collect()
        self.assertEqual(run.result(60)["y"].tolist(), [1, 2, 3, 4])

    def test_pipelines_too(self):
        model = mlrt.open(support.digits())
        self.assertEqual(model.run_async(support.PICTURE).result(60), model.run(support.PICTURE))

    def test_it_is_awaited(self):
        model = mlrt.open(support.relu())

        async def work():
            return await asyncio.gather(*(model.run_async(x=[i, -1, 2, -3]) for i in range(8)))

        self.assertEqual([a["y"][0] for a in asyncio.run(work())], list(range(8)))

    def test_a_session_is_in_use_until_its_run_is_over_and_cancel_ends_it(self):
        session = mlrt.open(support.square(), variant="portable", memory_limit=float("inf")).session()
        x = np.ones((4000, 4000), np.float32)  # minutes
        run = session.run_async(x=x)
        with self.assertRaises(mlrt.UsageError):
            session.run(x=np.ones((2, 2), np.float32))
        run.cancel()
        with self.assertRaises(mlrt.Cancelled):
            run.result(60)
        self.assertEqual(session.run(x=np.ones((2, 2), np.float32))["y"].tolist(), [[2, 2], [2, 2]])

        async def work():
            await asyncio.wait_for(session.run_async(x=x), 0.05)

        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(work())

    def test_the_process_ends_though_a_run_goes_on(self):
        process = script(f"""
            import mlrt, numpy as np
            model = mlrt.open({str(support.square())!r}, variant="portable", memory_limit=float("inf"))
            run = model.run_async(x=np.ones((4000, 4000), np.float32))
        """)
        self.assertEqual(answer_of(process), "")
        self.assertEqual(process.returncode, 0)

    def test_models_share_a_pool_of_threads(self):
        pool = mlrt.ThreadPool(2)
        models = [mlrt.open(path, pool=pool) for path in (support.relu(), support.square())]
        self.assertEqual([m.session().info()["threads"] for m in models], [2, 2])
        self.assertEqual(models[0].session(pool=mlrt.ThreadPool(1)).info()["threads"], 1)
        del pool
        self.assertEqual(models[1].run(x=np.ones((2, 2), np.float32))["y"].tolist(), [[2, 2], [2, 2]])
        with self.assertRaises(mlrt.Error):
            mlrt.ThreadPool(1, cpus=[1 << 20])


class Interrupt(unittest.TestCase):
    """Ctrl-C, as a process of its own gets it."""

    def answer(self, options="", handler=""):
        """Of a run of minutes, and a signal when it goes on."""
        process = script(f"""
            import mlrt, numpy as np, os, signal, threading, time
            model = mlrt.open({str(support.square())!r}, variant="portable", memory_limit=float("inf"))
            session = model.session()
            {handler}

            def interrupt():
                while True:
                    try:
                        session.state_reset()
                    except mlrt.UsageError:  # in use
                        return os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(0.01)  # the other thread's turn

            threading.Thread(target=interrupt, daemon=True).start()
            try:
                while True:  # which of the two comes first
                    try:
                        session.run(x=np.ones((4000, 4000), np.float32){options})
                    except mlrt.UsageError:
                        pass
            except KeyboardInterrupt:
                print("interrupted", session.run(x=np.ones((2, 2), np.float32))["y"].tolist())
            except mlrt.Cancelled:
                print("cancelled")
        """)
        return answer_of(process)

    def test_a_run_ends_with_keyboard_interrupt(self):
        for options in ("", ", cancel=mlrt.Cancel()"):
            self.assertEqual(self.answer(options), "interrupted [[2.0, 2.0], [2.0, 2.0]]\n")

    def test_a_handler_of_the_programs_own_decides(self):
        # At its time limit, not by the signal, which the handler takes.
        self.assertEqual(self.answer(", time_limit=1", "signal.signal(signal.SIGINT, lambda *_: None)"), "cancelled\n")


def script(text):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, text=True)


def answer_of(process):
    try:
        return process.communicate(timeout=120)[0]
    finally:
        process.kill()  # or one that does not end would be waited for by whoever reads what it prints


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
