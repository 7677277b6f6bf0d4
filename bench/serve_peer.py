"""The usual alternative: ONNX Runtime in FastAPI, as light as possible. `serve.py` starts it.

    PEER_MODEL=m.onnx PEER_THREADS=1 uvicorn serve_peer:app --workers 2
"""

import os

import numpy
import onnxruntime
import orjson
from fastapi import FastAPI, Request, Response

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(os.environ.get("PEER_THREADS", "1"))
options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(os.environ["PEER_MODEL"], options, providers=["CPUExecutionProvider"])
units = session.get_inputs()[1].shape[2]
app = FastAPI()


@app.post("/v1/run")
async def run(request: Request):
    # orjson both ways and no validation: FastAPI's own models would cost more.
    x = numpy.array(orjson.loads(await request.body())["sequences"], dtype=numpy.float32)
    x = numpy.ascontiguousarray(x.transpose(1, 0, 2))  # (T, B, q)
    zeros = numpy.zeros((1, x.shape[1], units), numpy.float32)
    (y,) = session.run(["y"], {"x": x, "h0": zeros, "c0": zeros})
    y = numpy.ascontiguousarray(y.transpose(1, 0, 2))
    return Response(orjson.dumps({"answers": y}, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")
