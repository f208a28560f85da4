"""levin sweep --sampler optuna, compared with Optuna itself: optuna_test.py LEVIN SOURCE"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import optuna

LEVIN, SOURCE = sys.argv[1:3]
TRIALS = 14  # TPE draws at random ten times before it learns
ENVIRONMENT = {**os.environ, "PYTHON": sys.executable}
optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = {"model.lr": optuna.distributions.FloatDistribution(1e-6, 1e-1, log=True),
         "model.channels": optuna.distributions.IntDistribution(4, 16),
         "data.batch_size": optuna.distributions.CategoricalDistribution(["32", "64"])}


def texts_of(params):
    return {key: f"{value:.6g}" if isinstance(value, float) else str(value) for key, value in params.items()}


def command(*words):
    return [LEVIN, "sweep", *words]


def sweep_words(root, *more):
    return command("--config", f"{SOURCE}/examples/digits/config.yaml", "--sampler", "optuna", "--random", str(TRIALS), "--seed", "7",
                   "--space", "model.lr=log:1e-6..1e-1", "--space", "model.channels=int:4..16",
                   "--space", "data.batch_size=choice:32,64", "--trainer.accelerator=cpu", "--trainer.max_epochs=1",
                   "--trainer.limit_train_batches=3", "--trainer.limit_val_batches=1", f"--trainer.default_root_dir={root}", *more)


def run(words, **more):
    return subprocess.run(words, cwd=SOURCE, capture_output=True, text=True, timeout=300, **{"env": ENVIRONMENT, **more})


def trials_of(root):
    return json.loads((pathlib.Path(root) / "sweeps/sweep_0/sweep.json").read_text())["trials"]


class OptunaSampler(unittest.TestCase):
    def assert_drawn_by_optuna(self, trials):
        """Each trial has what Optuna gives for the scores of those before."""
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=7, constant_liar=True))
        for trial in trials:
            asked = study.ask(SPACE)
            self.assertEqual(trial["values"], texts_of(asked.params))
            study.tell(asked, trial["scores"][0])

    @staticmethod
    def ended(trial):
        kinds = {"model.lr": float, "model.channels": int, "data.batch_size": str}
        params = {key: kind(trial["values"][key]) for key, kind in kinds.items()}
        return optuna.trial.create_trial(params=params, distributions=SPACE, value=trial["scores"][0])

    def test_values_are_those_of_optuna(self):
        with tempfile.TemporaryDirectory() as root:
            done = run(sweep_words(root))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            trials = trials_of(root)
            self.assertEqual(len(trials), TRIALS)
            self.assert_drawn_by_optuna(trials)
            best = min(trial["scores"][0] for trial in trials)
            first = (pathlib.Path(root) / "sweeps/sweep_0/results.csv").read_text().splitlines()[1]
            self.assertIn(f"{best:.6g}", first)
            again = pathlib.Path(root) / "sweeps/sweep_0/trial_013/command.txt"
            self.assertIn(f"--model.lr={trials[13]['values']['model.lr']}", again.read_text())

    def test_a_resumed_sweep_has_learned_from_what_has_ended(self):
        with tempfile.TemporaryDirectory() as root:
            sweep = subprocess.Popen(sweep_words(root), cwd=SOURCE, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
            for line in sweep.stdout:
                if line.startswith("trial_011 finished"):
                    break
            sweep.send_signal(signal.SIGINT)
            sweep.stdout.read()
            self.assertEqual(sweep.wait(timeout=60), 130)
            before = [trial["values"] for trial in trials_of(root)[:12]]
            had_values = bool(trials_of(root)[12]["values"])
            done = run(command("--resume", f"{root}/sweeps/sweep_0"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            trials = trials_of(root)
            self.assertEqual([trial["values"] for trial in trials[:12]], before)
            self.assertTrue(all(trial["status"] == "finished" and trial["values"] for trial in trials))
            study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=7, constant_liar=True))
            for trial in trials[:12] + ([trials[12]] if had_values else []):
                study.add_trial(self.ended(trial))
            for trial in trials[13 if had_values else 12:]:
                asked = study.ask(SPACE)
                self.assertEqual(trial["values"], texts_of(asked.params))
                study.tell(asked, trial["scores"][0])

    def test_trials_that_fail_are_reported_as_such_and_several_run_at_a_time(self):
        with tempfile.TemporaryDirectory() as root:
            done = run(sweep_words(root, "--jobs", "2", "--space", "trainer.limit_val_batches=choice:-1,1"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            statuses = {trial["status"] for trial in trials_of(root)}
            self.assertEqual(statuses, {"finished", "failed"})

    def test_a_python_without_optuna_is_reported(self):
        with tempfile.TemporaryDirectory() as root:
            bare = pathlib.Path(root) / "python"
            bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
            bare.chmod(0o755)
            done = run(sweep_words(root), env={**ENVIRONMENT, "PYTHON": str(bare)})
            self.assertEqual(done.returncode, 1)
            self.assertIn("has no optuna", done.stderr)
            self.assertIn("pip install optuna", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
