"""Draws the values of a sweep's trials by Optuna's TPE. `levin sweep --sampler optuna` starts it, writes lines of JSON to its
standard input, and reads one line for each question from its standard output. Values are texts, as on the command line."""

import json
import sys


def answer(value):
    print(json.dumps(value), flush=True)


def distribution(kind, values):
    if kind in ("choice", "grid"):
        return CategoricalDistribution(values)
    return IntDistribution(*values) if kind == "int" else FloatDistribution(*values, log=kind == "log")


def text(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def value_of(text, distribution):
    if isinstance(distribution, CategoricalDistribution):
        return text
    number = int(text) if isinstance(distribution, IntDistribution) else float(text)
    return min(max(number, distribution.low), distribution.high)


try:
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
except ImportError as error:
    answer({"error": f"{sys.executable} has no optuna ({error})"})
    sys.exit(1)

optuna.logging.set_verbosity(optuna.logging.WARNING)
first = json.loads(sys.stdin.readline())
space = {key: distribution(*kind) for key, kind in first["space"].items()}
sampler = optuna.samplers.TPESampler(seed=first["seed"], constant_liar=True)
study = optuna.create_study(direction="maximize" if first["maximize"] else "minimize", sampler=sampler)
answer({"optuna": optuna.__version__})
asked = {}
for line in sys.stdin:
    message = json.loads(line)
    if "ask" in message:
        trial = asked[message["ask"]] = study.ask(space)
        answer({"values": {key: text(value) for key, value in trial.params.items()}})
        continue
    score = message["score"]
    state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
    trial = asked.pop(message["tell"], None)
    if trial is not None:
        study.tell(trial, score, state=state)
    else:  # of the sweep before it was resumed
        params = {key: value_of(message["values"][key], space[key]) for key in space}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=score, state=state))
