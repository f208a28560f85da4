"""Exports models of packages from PyPI, and trains each with levin and with Lightning on the same batches: one table of what works.

    python tests/exported/models/run_models.py --build build [NAME or FIELD ...]      # `make test-export-models` installs what it needs

A model is exported as it is, and if that is refused, after the one change that the message asks for. Results are stored
until levin's Python or the models change. Exits with 1 when a model fares worse than expected.json says.
"""

import argparse
import json
import logging
import os
import pathlib
import re
import sys
import time
import traceback
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import torch  # noqa: E402

from runs import ROOT, SEED, difference, sources_hash, with_levin, with_lightning, write_batches  # noqa: E402

import cases  # noqa: E402
import levin_train  # noqa: E402
from recorded_graphs import verified  # noqa: E402
from step_times import step_times  # noqa: E402

FIELDS = ("text", "vision", "objects", "learning", "tables", "series", "graphs", "demos")
STEPS, ALLOWED = 20, 1e-5
VERDICTS = ("as it is", "after a change", "refused", "wrong")  # the best first
BEGIN, END = "<!-- models: written by make test-export-models -->", "<!-- end of models -->"


def made(variant):
    """A model of a variant, and its batches, the same each time."""
    torch.manual_seed(SEED)
    module = variant.make()
    batches = []
    for index in range(STEPS):
        torch.manual_seed(100 + index)
        batches.append(variant.batch(index))
    return module, batches


def exported(variant, path):
    """Exports a variant. Gives the reason when it is refused, the seconds that it took, and the names that the package does not log."""
    module, batches = made(variant)
    options = dict(variant.export)
    count = options.pop("batches", 1)
    begin = time.monotonic()
    try:
        done = levin_train.export(module, batches[0], path, batches=batches[1:count], **options)
        return "", time.monotonic() - begin, re.findall(r'"([^"]+)" is left out', "\n".join(done.notes))
    except levin_train.ExportError as error:
        return str(error), time.monotonic() - begin, []


class Refused(Exception):
    """A run of levin that ends at a batch which is of another shape than the package's."""


def trained(variant, folder, build, left_out):
    """How far the losses of a run of levin are from those of Lightning: None where there is no program, or no optimizer of levin. Raises
    ValueError where that is more than rounding."""
    if not (build / "bin/levin").exists() or not (folder / "m.yaml").exists():
        return None
    module, batches = made(variant)
    needs_value = "ReduceLROnPlateau" in (folder / "m.yaml").read_text(encoding="utf-8")  # a schedule, of validation
    validation = batches[:1] if needs_value and "validation_step" not in variant.export.get("without", ()) else []
    write_batches(folder / "batches.safetensors", {"train": batches, "val": validation})
    steps, last = trained_by_lightning(module, batches, validation)
    try:
        rows, version = with_levin(folder, build, 1)
    except RuntimeError as error:
        raise (Refused if " takes \"" in str(error) else RuntimeError)(str(error)) from error
    if not set(last) - {"epoch", "step"}:  # nothing is logged
        return weights_differ(module, variant, version)
    off = difference(steps, last, rows, left_out)[0]
    if off > ALLOWED and off > 2 * rounding(variant, steps, last, validation):
        raise ValueError(f"the losses differ by {off:.2g}")
    return off


def trained_by_lightning(module, batches, validation):
    return with_lightning(module, batches, validation, **({} if validation else {"limit_val_batches": 0}))


def weights_differ(module, variant, version):
    """How far the weights of levin's last checkpoint are from the trained module's."""
    (file,) = (version / "checkpoints").glob("*.ckpt")
    theirs = dict(levin_train.load(variant.make(), file).named_parameters())
    off = max(float((own - theirs[name]).abs().max() / own.abs().max().clamp_min(0.1)) for name, own in module.named_parameters())
    if off > ALLOWED:
        raise ValueError(f"the weights differ by {off:.2g}")
    return off


def rounding(variant, steps, last, validation):
    """How far Lightning's own losses go when each step's weights have another last digit, the most of six runs: what small batches and
    normalisations make of rounding."""
    furthest = 0.0
    for seed in range(6):
        module, batches = made(variant)
        generator = torch.Generator().manual_seed(seed)
        training_step = module.training_step

        def rounded(*batch, module=module, generator=generator, training_step=training_step):
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.mul_(1 + 1.2e-7 * torch.randn(parameter.shape, generator=generator))
            return training_step(*batch)

        module.training_step = rounded
        others, end = trained_by_lightning(module, batches, validation)
        of_the_epoch = {name: value for name, value in end.items() if name not in others[0]}
        furthest = max(furthest, difference(steps, last, [*others, of_the_epoch])[0])
    return furthest


def recorded(case):
    """One line of the table without compiling: the graphs of the steps are compared with the module."""
    line = {"field": case.field, "package": case.package, "verdict": "refused", "message": "", "change": ""}
    for verdict, variant in (("as it is", case.as_it_is), ("after a change", case.changed)):
        if variant is None:
            continue
        module, batches = made(variant)
        options = dict(variant.export)
        count = options.pop("batches", 1)
        begin = time.monotonic()
        try:
            verified(module, batches[0], batches[1:count], sizes=(2, 7), **options)
        except levin_train.ExportError as error:
            line["message"] = line["message"] or str(error)
            continue
        return {**line, "verdict": verdict, "change": variant.what, "export_seconds": time.monotonic() - begin}
    return line


def run(case, folder, build, against):
    """One line of the table."""
    line = {"field": case.field, "package": case.package, "verdict": "refused", "message": "", "change": ""}
    for verdict, variant in (("as it is", case.as_it_is), ("after a change", case.changed)):
        if variant is None:
            continue
        refusal, seconds, left_out = exported(variant, folder / "m.pt2")
        line["message"] = line["message"] or refusal
        if refusal:
            continue
        line.update(verdict=verdict, change=variant.what, export_seconds=seconds)
        try:
            line["difference"] = trained(variant, folder, build, left_out)
        except Refused as error:  # a batch that the package does not take: levin says so at the step
            line.update(verdict="refused", message=str(error))
            continue
        except Exception as error:  # of Lightning or of the run: the table says it
            line.update(verdict="wrong", message=f"{type(error).__name__}: {error}")
            break
        line["times"] = step_times(*made(variant), folder / "m.pt2", against)
        break
    return line


def cell(line, key, form):
    return format(line[key], form) if line.get(key) is not None else ""


def table(results):
    """The results as Markdown."""
    count = {verdict: sum(line["verdict"] == verdict for line in results.values()) for verdict in VERDICTS}
    total, bare = len(results), any("times" not in line for line in results.values() if line["verdict"] in VERDICTS[:2])
    text = [f"{total} models: {count['as it is']} ({100 * count['as it is'] // total} %) as they are, {count['after a change']} after one change, "
            f"{count['refused']} refused{f', {count[VERDICTS[3]]} wrong' if count['wrong'] else ''}."
            + (" Where there are no figures, what is recorded was compared, without compiling it." if bare else ""), "",
            "| model | of | exported | losses differ by | export, s | step over eager's | over torch.compile's |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, line in results.items():
        what = line["verdict"] + {"after a change": f": {line['change']}", "refused": f": {line['message'].split('. ')[0]}", "wrong": f": {line['message']}"}.get(
            line["verdict"], "")
        times = {other: format(share, ".2f") for other, share in (line.get("times") or {}).items() if isinstance(share, float)}
        text.append(f"| {name} | {line['package']} | {what.replace('|', '/')} | {cell(line, 'difference', '.0e')} | {cell(line, 'export_seconds', '.0f')} | "
                    f"{times.get('eager', '')} | {times.get('compile', '')} |")
    return "\n".join(text)


def write_table(results):
    page = ROOT / "docs/from-python.md"
    text = page.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    page.write_text(f"{text[:begin]}\n{table(results)}\n{text[end:]}", encoding="utf-8")


def is_worse(line, wanted):
    """Whether a model fares worse than expected.json says: {"verdict": …, "message": part of a refusal's}."""
    worse = VERDICTS.index(line["verdict"]) > VERDICTS.index(wanted["verdict"])
    return worse or line["verdict"] == "refused" and wanted.get("message", "") not in line["message"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of models or of fields; all without them")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="with bin/levin and lib/librecorded_batches.so")
    parser.add_argument("--store", type=pathlib.Path, default=ROOT / "build/models/results", help="where packages and results are stored")
    parser.add_argument("--against", nargs="*", default=["eager", "compile"], choices=["eager", "compile"], help="what a step's time is compared with")
    parser.add_argument("--recorded", action="store_true", help="compare what is recorded, without compiling and training: minutes")
    parser.add_argument("--expect", action="store_true", help="write expected.json from the results")
    parser.add_argument("--table", action="store_true", help="write the table into docs/from-python.md")
    options = parser.parse_args()
    for field in FIELDS:
        cases.load(field)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    store = options.store.resolve() / (sources_hash(HERE) + ("-recorded" if options.recorded else ""))
    store.mkdir(parents=True, exist_ok=True)
    stored = store / "results.json"
    results = json.loads(stored.read_text()) if stored.exists() else {}
    chosen = [case for case in cases.CASES.values() if not options.names or {case.name, case.field} & set(options.names)]
    for case in chosen:
        if case.name not in results:
            folder = store / case.name
            folder.mkdir(exist_ok=True)
            try:
                results[case.name] = recorded(case) if options.recorded else run(case, folder, options.build.resolve(), options.against)
            except Exception as error:  # a model that cannot be made, or an export that fails without a reason
                traceback.print_exc()
                results[case.name] = {"field": case.field, "package": case.package, "verdict": "wrong", "message": f"{type(error).__name__}: {error}"}
            stored.write_text(json.dumps(results, indent=1))
        line = results[case.name]
        missing = [other for other in options.against if other not in line.get("times", options.against)]
        if missing:
            variant = case.changed if line["verdict"] == "after a change" else case.as_it_is
            line["times"].update(step_times(*made(variant), store / case.name / "m.pt2", missing))
            stored.write_text(json.dumps(results, indent=1))
        print(f"{case.name}: {line['verdict']} {line.get('difference')} {line.get('export_seconds', 0):.0f} s {line.get('times')} {line['message'][:300]}", flush=True)
    found = {case.name: results[case.name] for case in chosen}
    path = HERE / "expected.json"
    if options.expect:
        expected = {name: {"verdict": line["verdict"], **({"message": line["message"].split(": ", 1)[-1][:60]} if line["verdict"] == "refused" else {})}
                    for name, line in found.items()}
        path.write_text(json.dumps(expected, indent=1) + "\n")
    if options.table:
        write_table(found)
    expected = json.loads(path.read_text()) if path.exists() else {}
    worse = [name for name, line in found.items() if name in expected and is_worse(line, expected[name])]
    if worse:
        print(f"Worse than expected: {', '.join(worse)}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
