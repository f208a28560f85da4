"""levin from Python's ctypes, without any package: python3 interface.py LIBLEVIN.SO"""
import array
import ctypes
import sys

levin = ctypes.CDLL(sys.argv[1])
FLOAT32 = 8
YAML = b"""
seed_everything: 3
trainer: {enable_progress_bar: false, enable_checkpointing: false}
model: {class_path: MLPRegressor, init_args: {inputs: 2, hidden: [16], lr: 0.02}}
"""


class StepResult(ctypes.Structure):
    _fields_ = [("loss", ctypes.c_double), ("ends_epoch", ctypes.c_int32), ("stops", ctypes.c_int32)]


levin.levin_last_error.restype = ctypes.c_char_p
levin.levin_session_metric.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_double)]


def call(status):
    if status != 0:
        raise RuntimeError(f"{status}: {levin.levin_last_error().decode()}")


def tensor(batch, name, numbers, *shape):
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    call(levin.levin_batch_set(batch, name, ctypes.c_void_p(numbers.buffer_info()[0]), FLOAT32, len(shape), sizes, None))


session, batch, prediction = (ctypes.c_void_p() for _ in range(3))
overrides = (ctypes.c_char_p * 1)(b"trainer.max_steps=30")
call(levin.levin_session_open_text(YAML, overrides, ctypes.c_size_t(1), ctypes.byref(session)))
call(levin.levin_session_begin(session, None))
call(levin.levin_batch_create(ctypes.byref(batch)))
features = array.array("f", [0.1 * (index % 7) for index in range(16)])
labels = array.array("f", [2 * a - b for a, b in zip(features[::2], features[1::2])])
tensor(batch, b"features", features, 8, 2)
tensor(batch, b"label", labels, 8)

losses = []
result = StepResult()
while not result.stops:
    call(levin.levin_session_step(session, batch, ctypes.byref(result)))
    losses.append(result.loss)
assert len(losses) == 30 and losses[-1] < losses[0] / 5, losses

call(levin.levin_session_predict(session, batch, ctypes.byref(prediction)))
values = array.array("f", bytes(32))
call(
    levin.levin_batch_copy(
        prediction, b"value", ctypes.c_void_p(values.buffer_info()[0]), FLOAT32, 1, (ctypes.c_int64 * 1)(8), None
    )
)
error = sum((value - label) ** 2 for value, label in zip(values, labels)) / 8
assert error < losses[0] / 5, (error, losses[0])

metric = ctypes.c_double()
call(levin.levin_session_metric(session, b"train_loss", ctypes.byref(metric)))
assert metric.value > 0
try:
    call(levin.levin_session_metric(session, b"none", ctypes.byref(metric)))
    raise AssertionError("a metric that nobody logged has a value")
except RuntimeError as error:
    assert "there is no metric 'none'; the module has logged" in str(error), error
call(levin.levin_session_end(session))
levin.levin_batch_free(prediction)
levin.levin_batch_free(batch)
levin.levin_session_close(session)
print("all hold")
