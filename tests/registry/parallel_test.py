"""mlpack pull with several requests on their way: never more than was said, the same file and the same errors whichever is answered first."""
import re
import threading
import time

from pushed import REPOSITORY, Pushed
from small_registry import SmallRegistry
from tool_test import main

MIB = 1 << 20
PATIENCE = 20  # seconds until a request that waits for others gives up: a failure of the test
ROWS = (2, 6, 10, 14, 18, 22, 26, 30)  # MiB of the file at which an old one has other bytes


class Apart(Pushed):
    """A file of which old.mlc lacks eight leaves, so that a pull has as many requests. They are known by their place, from 0."""

    def __enter__(self):
        super().__enter__()
        old = bytearray(self.data)
        for at in ROWS:
            old[at * MIB] ^= 1
        (self.t.dir / "old.mlc").write_bytes(old)
        self.places = {}
        self.arrived, self.answered = [], {}  # places in the order of their requests; when a place was answered by a fault
        return self

    def place(self, request):
        """Of a request for one of the leaves; else none."""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range") or "")
        if not match or not self.is_blob(request):
            return None
        first, last = map(int, match.groups())
        return next((k for k, at in enumerate(ROWS) if first <= at * MIB <= last), None)

    def pull_apart(self, *flags, code=0):
        self.registry.most_in_flight = 0
        self.arrived.clear()
        return self.pull("--from", "old.mlc", *flags, code=code)

    def wants_a_user(self):
        folder = self.t.dir / "home/docker"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text('{"auths":{"%s":{"auth":"YW5uYTpzZWNyZXQ="}}}' % self.registry.host)
        self.t.env["DOCKER_CONFIG"] = str(folder)
        self.registry.users = {"anna": "secret"}

    def holds(self, number, then=lambda place, request: False):
        """Requests for leaves wait until `number` of them are there, once; `then` answers those, and those behind them."""
        together = set()
        is_full = threading.Event()

        def hold(request):
            place = self.place(request)
            if place is None:
                return False
            with self.registry.lock:
                self.arrived.append((place, time.monotonic()))
                together.add(place)
                if len(together) >= number:
                    is_full.set()
            assert is_full.wait(PATIENCE), f"{number} requests at once"
            time.sleep(0.1)  # one too many would come now
            return then(place, request)
        self.registry.faults.append(hold)


def four_requests_are_on_their_way(t):
    with Apart(t, "large", "32", "1") as p:
        for number, flags in ((4, ()), (8, ("--parallel", "8")), (2, ("--parallel", "2")), (1, ("--parallel", "1"))):
            p.registry.faults.clear()
            p.holds(number)
            answer = p.pull_apart(*flags)
            assert p.registry.most_in_flight == number, (number, p.registry.most_in_flight)
            assert answer["requests"] == 10 and sorted(place for place, _ in p.arrived) == list(range(8)), (answer, p.arrived)
        for number in ("0", "9", "x"):
            p.pull("--parallel", number, code=2)


def large_parts_are_asked_for_in_pieces(t):
    for sign in (True, False):
        with Pushed(t, "large", "98", "1", sign=sign) as p:
            starts, is_full = set(), threading.Event()

            def hold(request):
                match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range") or "")
                if match and int(match.group(2)) - int(match.group(1)) > MIB:
                    with p.registry.lock:
                        starts.add(int(match.group(1)))
                        if len(starts) == 4:
                            is_full.set()
                    assert is_full.wait(PATIENCE)
                return False
            p.registry.faults.append(hold)
            p.pull()
            assert p.registry.most_in_flight == 4
            p.registry.faults.clear()
            p.registry.log.clear()
            p.pull("--parallel", "1")
            assert len([entry for entry in p.registry.requests("GET", "/blobs/")]) <= 3, "one stream, as there is one request"


def a_small_file_needs_one_connection(t):
    with Pushed(t) as p:
        p.registry.connections = p.registry.most_in_flight = 0  # a push has several blobs on their way
        p.pull()
        assert p.registry.connections == p.registry.most_in_flight == 1, (p.registry.connections, p.registry.most_in_flight)


def answers_in_any_order_make_the_same_file(t):
    with Apart(t, "large", "32", "1") as p:
        done = {k: threading.Event() for k in range(4)}

        def last_first(place, request):
            if place < 3:
                assert done[place + 1].wait(PATIENCE)
            p.serve(request)
            if place < 4:
                done[place].set()
            return True
        p.serve = lambda request: p.registry.serve_right(request)
        p.holds(4, last_first)
        p.pull_apart()


def one_of_four_that_is_cut_or_wrong_is_asked_again(t):
    with Apart(t, "large", "32", "1") as p:
        done = []

        def cuts(place, request):
            if place != 2 or done:
                return False
            done.append(place)
            return p.registry.answer_bytes(request, p.data, send=b"x" * 1000)
        p.holds(4, cuts)
        assert p.pull_apart()["requests"] == 11
        p.registry.faults.clear()
        done.clear()

        def is_wrong(place, request):
            if place not in (1, 3) or place in done:
                return False
            done.append(place)
            return p.answer_wrong(request, ROWS[place] * MIB)
        p.holds(4, is_wrong)
        assert p.pull_apart()["requests"] == 12


def errors_are_those_of_the_first_in_order(t):
    with Apart(t, "large", "32", "1") as p:
        for first_told in (1, 3):
            p.registry.faults.clear()
            told = threading.Event()

            def fails(place, request):
                if place not in (1, 3):
                    return False
                if place != first_told:
                    assert told.wait(PATIENCE)
                    time.sleep(0.2)
                request.answer(418, b'{"errors":[{"code":"PLACE","message":"%d"}]}' % place)
                told.set()
                return True
            p.holds(4, fails)
            assert "PLACE: 1" in str(p.pull_apart(code=30))
            assert not [place for place, _ in p.arrived if place > 6], p.arrived
        # Wrong twice: the first of the plan as well.
        p.registry.faults.clear()
        p.holds(4, lambda place, request: place in (2, 5) and p.answer_wrong(request, ROWS[place] * MIB))
        found = {str(p.pull_apart(code=12)["facts"]) for _ in range(2)}
        assert len(found) == 1, found


def a_failure_ends_those_behind_it(t):
    with Apart(t, "large", "32", "1") as p:
        release = threading.Event()

        def fails(place, request):
            if place == 0:
                return request.answer(404)
            assert release.wait(PATIENCE), "the pull did not end while its other requests were unanswered"
            return False
        p.holds(4, fails)
        p.pull_apart(code=30)
        release.set()
        assert {place for place, _ in p.arrived} == {0, 1, 2, 3}


def a_registry_that_is_busy_is_left_alone(t):
    with Apart(t, "large", "32", "1") as p:
        is_told = threading.Event()

        def is_busy(place, request):
            if place != 2 or p.answered:
                assert is_told.wait(PATIENCE)
                return False
            p.answered[2] = time.monotonic()
            request.answer(429, headers={"Retry-After": "2"})
            request.wfile.flush()
            time.sleep(0.3)
            is_told.set()
            return True
        p.holds(4, is_busy)
        p.pull_apart()
        later = [at for _, at in p.arrived[4:]]
        assert len(later) == 5 and min(later) >= p.answered[2] + 1.9, (p.arrived, p.answered)
        # One that has no patience with more than one.
        p.registry.faults.clear()
        refused = []

        def one_only(request):
            if p.place(request) is None or len(p.registry.in_flight) == 1:
                return False
            refused.append(1)
            return request.answer(429, headers={"Retry-After": "0"})
        p.registry.faults.append(lambda request: p.place(request) is not None and time.sleep(0.05))
        p.registry.faults.append(one_only)
        p.pull_apart()
        assert 0 < len(refused) <= 6, refused
        p.registry.faults.clear()
        p.holds(4, lambda place, request: place == 1 and request.answer(429, headers={"Retry-After": "0"}))
        assert "429" in p.pull_apart(code=30)["message"]


def a_token_is_fetched_once(t):
    with Apart(t, "large", "32", "1") as p:
        p.wants_a_user()
        challenge = lambda: {"WWW-Authenticate": f'Bearer realm="http://{p.registry.host}/token",service="small",scope="repository:acme/cat:pull"'}
        ended = set()

        def expires(place, request):
            if place in ended or place > 3:
                return False
            ended.add(place)
            return request.answer(401, b"{}", challenge())
        p.holds(4, expires)
        p.registry.log.clear()
        p.pull_apart()
        assert len(p.registry.requests("GET", "^/token$")) == 2, "one at the beginning, one when it had expired"
        # Without a token for them: asked for once, and told once.
        p.registry.faults.clear()
        p.holds(4, lambda place, request: request.answer(401, b"{}", challenge()))
        p.registry.faults.append(lambda request: request.path == "/token" and bool(p.arrived) and request.answer(403, b"{}"))
        p.registry.log.clear()
        assert "a token is denied" in p.pull_apart(code=30)["message"]
        assert len(p.registry.requests("GET", "^/token$")) == 2


def a_proof_does_not_follow_redirects_of_several(t):
    with Apart(t, "large", "32", "1") as p, SmallRegistry() as elsewhere:
        elsewhere.put_blob(REPOSITORY, p.data)
        p.wants_a_user()
        p.holds(4, lambda place, request: request.answer(307, headers={"Location": f"http://{elsewhere.host}/v2/acme/cat/blobs/{p.blob}"}))
        p.pull_apart()
        asked = elsewhere.requests("GET", "/blobs/")
        assert len(asked) == 8 and not any(entry["authorization"] for entry in asked), asked


def ranges_that_end_on_the_way_give_the_whole_file(t):
    with Apart(t, "large", "32", "1") as p:
        p.holds(4, lambda place, request: place == 3 and request.answer(200, p.data))
        assert not p.pull_apart()["ranges"]


main([
    four_requests_are_on_their_way, large_parts_are_asked_for_in_pieces, a_small_file_needs_one_connection, answers_in_any_order_make_the_same_file,
    one_of_four_that_is_cut_or_wrong_is_asked_again, errors_are_those_of_the_first_in_order, a_failure_ends_those_behind_it,
    a_registry_that_is_busy_is_left_alone, a_token_is_fetched_once, a_proof_does_not_follow_redirects_of_several,
    ranges_that_end_on_the_way_give_the_whole_file,
])
