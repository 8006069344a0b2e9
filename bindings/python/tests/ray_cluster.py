"""examples/ray on a head and a second node of one machine, six replicas; the second node is killed under load. Run by ray_test.py.

    ray_cluster.py APP-FOLDER MODEL.mlc PICTURES RESOURCES-OF-mlrun-probe
"""
import json
import os
import pathlib
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

os.environ.update(PYTHONPATH=sys.argv[1], RAY_USAGE_STATS_ENABLED="0")
sys.path.insert(0, sys.argv[1])
import ray  # noqa: E402
from ray import serve  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import app  # noqa: E402

REPLICAS, CLIENTS, ANSWERS, PATIENCE = 6, 4, 100, 200  # the last in seconds


def ask(port, body):
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/", data=body), timeout=120) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def replicas():
    return serve.status().applications["default"].deployments["Model"].replica_states


def wait(done):
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, replicas()
        time.sleep(0.1)


class Load:
    """Clients that send the pictures again and again, and compare the answers."""

    def __init__(self, port, wanted):
        self.port, self.wanted, self.stop = port, wanted, False
        self.right, self.faults = [0] * CLIENTS, []
        self.threads = [threading.Thread(target=self.run, args=(i, )) for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, client):
        while not self.stop:
            for body, answer in self.wanted.items():
                try:
                    found = ask(self.port, body)
                except OSError as error:
                    found = repr(error)
                if found == (200, answer):
                    self.right[client] += 1
                else:
                    self.faults.append(found)

    def end(self):
        self.stop = True
        for thread in self.threads:
            thread.join()


def main():
    model, pictures, offered = sys.argv[2], pathlib.Path(sys.argv[3]), json.loads(sys.argv[4])
    target = list(offered)[-1].removeprefix("mlc.")
    # Half of the replicas fit on a node: they need both.
    node = {"num_cpus": REPLICAS // 2, "resources": dict.fromkeys(offered, REPLICAS // 2), "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    second = cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port, "location": "HeadOnly"})
    serve.run(app.app({"model": model, "replicas": REPLICAS, "target": target}))
    wanted = {}
    for picture in sorted(pictures.iterdir()):
        code, answer = ask(port, picture.read_bytes())
        assert code == 200, answer
        wanted[picture.read_bytes()] = answer
        print("ANSWER", picture.name, json.dumps(answer))
    code, answer = ask(port, b"no picture")
    assert code == 400, (code, answer)
    assert replicas() == {"RUNNING": REPLICAS}, replicas()
    load = Load(port, wanted)
    try:
        wait(lambda: sum(load.right) >= ANSWERS)
        cluster.remove_node(second, allow_graceful=False)
        killed_at = sum(load.right)
        wait(lambda: replicas().get("RUNNING") == REPLICAS // 2)
        wait(lambda: sum(load.right) >= killed_at + ANSWERS)
    finally:
        load.end()
    print(f"      {killed_at} right answers with {REPLICAS} replicas of {target}, {sum(load.right) - killed_at} after the second node was killed, {len(load.faults)} others {load.faults[:3]}")
    assert not load.faults
    serve.shutdown()
    ray.shutdown()
    cluster.shutdown()
    print("DONE")


main()
