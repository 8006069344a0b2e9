"""A container behind Ray Serve: a replica is a process with the model open, on a node whose processor the container has code for.

    ray start --head --resources="$(mlrun probe --ray)"
    serve run app:app model=digits.mlc replicas=2
    curl --data-binary @photo_3.jpg http://127.0.0.1:8000/
"""
import asyncio
import base64
import dataclasses
import json

import mlrt
import numpy
from ray import serve
from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException
from starlette.requests import Request
from starlette.responses import JSONResponse

FAULTS_OF_THE_REQUEST = (mlrt.InputMismatch, mlrt.Malformed, mlrt.UsageError, mlrt.Unsupported)


def as_json(value):
    """Answers as what JSON has: classes, lines and boxes as objects, arrays as lists."""
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(one) for one in value]
    if isinstance(value, numpy.ndarray):
        return value.tolist()
    return value


class WrongBody(Exception):
    """Says what a body has, and what is expected of it."""


def from_json(name, value, takes, port):
    """What JSON has as what the input takes. Never a str for a file: that would be a path on this node."""
    try:
        if "text/plain" in getattr(takes, "accept", ()):
            return value if isinstance(value, str) else [str(one) for one in value]
        if hasattr(takes, "accept") and not takes.is_array:
            return base64.b64decode(value, validate=True)
        return numpy.asarray(value, port.numpy_dtype if port else None)
    except (ValueError, TypeError, OverflowError) as error:
        raise WrongBody(f"input '{name}': {error}") from None


def inputs_of(body, model):
    """The body for a pipeline with one input, else an object of JSON that has all inputs by name."""
    takes = model.pipeline_inputs or model.inputs
    if model.pipeline_inputs and len(takes) == 1:
        return dict.fromkeys(takes, body)
    expected = f"an object of JSON with {', '.join(takes)} expected: arrays as lists, texts, other files in base64"
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WrongBody(f"the body is no JSON ({error}); {expected}") from None
    if not isinstance(given, dict):
        raise WrongBody(f"the body is a {type(given).__name__} of JSON; {expected}")
    if set(given) != set(takes):
        raise WrongBody(f"the body has {', '.join(given) or 'no inputs'}; {expected}")
    return {name: from_json(name, value, takes[name], model.inputs.get(name)) for name, value in given.items()}


@serve.deployment
class Model:
    def __init__(self, path, threads):
        self.model = mlrt.open(path, require="native", pool=mlrt.ThreadPool(threads))

    async def run(self, body):
        try:
            return 200, as_json(await self.model.run_async(inputs_of(body, self.model)))
        except WrongBody as error:
            return 400, {"error": str(error), "facts": [], "help": "README.md of examples/ray"}
        except FAULTS_OF_THE_REQUEST as error:
            return 400, {"error": error.message, "facts": list(error.facts), "help": error.help}


@serve.deployment
class Door:
    """Takes requests. A run changes nothing, so it is made again where its replica was lost."""

    def __init__(self, model, tries):
        self.model, self.tries = model, tries

    async def __call__(self, request: Request):
        body = await request.body()
        for attempt in range(1, self.tries + 1):
            try:
                code, answer = await self.model.run.remote(body)
                return JSONResponse(answer, status_code=code)
            except (RayError, RayServeException) as error:
                if attempt == self.tries or isinstance(error, RayTaskError):  # the latter is a fault of the code, and comes again
                    raise
                await asyncio.sleep(0.1 * attempt)  # until it is known that the replicas of a node are gone, others of them may be asked


def app(args):
    """`serve run app:app model=FILE [target=x86-64-v3] [replicas=1] [threads=1] [tries=10]`; the file is at this path on every node."""
    threads, target = int(args.get("threads", 1)), args.get("target")
    options = {"num_cpus": threads, "resources": {f"mlc.{target}": threads} if target else {}}
    model = Model.options(num_replicas=int(args.get("replicas", 1)), ray_actor_options=options, max_ongoing_requests=4).bind(args["model"], threads)
    return Door.options(ray_actor_options={"num_cpus": 0}, max_ongoing_requests=100).bind(model, int(args.get("tries", 10)))
