#!/usr/bin/env python3
"""Opens pages of `levin report` in a browser without a window, and looks at what it made of them: page_check.py LEVIN CHROMIUM

One is of hostile runs, the other of fits, tests and a sweep, in which a script clicks as a reader would.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

HOSTILE = "</script><script>document.title='taken'</script>"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

# What a reader does, and what the page shows then.
READER = """
<script>
const firstCells = box => [...box.querySelectorAll('tbody tr')].map(row => row.children[0].textContent);
const runs = document.querySelector('#runs .scroll');
const column = title => [...runs.querySelectorAll('th button')].find(button => button.textContent === title);
const seen = {columns: [...runs.querySelectorAll('th')].map(head => head.textContent), order: firstCells(runs)};
column('best val_acc').click();
seen.up = firstCells(runs);
column('best val_acc').click();
seen.down = firstCells(runs);
column('run').click();
seen.byName = firstCells(runs);
seen.charts = [...document.querySelectorAll('.charts .card h3 span')].map(span => span.title);
seen.samples = [...document.querySelectorAll('#metrics .card > .series > span')].map(span => span.textContent);
seen.legend = [...document.querySelectorAll('#legend button')].map(button => button.textContent);
seen.tests = [...document.querySelectorAll('#tests td')].map(cell => cell.textContent);
seen.sweep = [...document.querySelectorAll('#sweep tbody tr')].map(row => [...row.children].map(cell => cell.textContent).join(' '));
seen.dots = [...document.querySelectorAll('.scatter circle')].map(dot => [dot.querySelector('title').textContent, dot.getAttribute('class')]);
seen.status = [...runs.querySelectorAll('.lost')].map(cell => cell.textContent);
seen.messages = [...document.querySelectorAll('.message.rank')].map(message => message.textContent);
const image = document.querySelector('.media img');
image.click();
seen.isOpen = document.getElementById('enlarged').open;
seen.large = document.querySelector('#enlarged img').src === image.src;
document.getElementById('enlarged').click();
seen.isClosed = !document.getElementById('enlarged').open;
const chart = [...charts.entries()][0];
chart[1].draw();
chart[1].onMove({offsetX: chart[1].width - 12, clientX: 0, clientY: 0});
seen.hover = [...document.querySelectorAll('#tip tr')].map(row => [...row.children].map(cell => cell.textContent).join(' '));
seen.warnings = [...document.querySelectorAll('.message:not(.rank):not(.bad)')].map(message => message.textContent);
seen.buckets = [...document.querySelectorAll('.ends span')].map(end => end.textContent);
seen.cut = [...document.querySelectorAll('.scroll td:first-child')].filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.textContent);
seen.isTall = [...document.querySelectorAll('.scroll td:first-child')].some(cell => cell.clientHeight > 120);
seen.ticks = [...document.querySelectorAll('.scatter text')].map(text => text.textContent);
dispatchEvent(new Event('beforeprint'));
seen.isPrinted = [...charts.values()].every(chart => chart.curves);
seen.overflows = document.documentElement.scrollWidth > innerWidth;
const result = document.createElement('pre');
result.id = 'seen';
result.textContent = JSON.stringify(seen);
document.body.append(result);
</script>
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb" if isinstance(text, bytes) else "w") as file:
        file.write(text)


def open_page(chromium, folder, file, *options):
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile", "--dump-dom",
               "--virtual-time-budget=3000", "--enable-logging=stderr", *options, f"file://{file}"]
    page = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    return page.stdout, [line for line in page.stderr.splitlines() if "CONSOLE" in line and "Uncaught" in line]


def hostile_runs(levin, chromium, folder):
    for run, lr in (("version_0", 0.1), ("version_1", 0.2)):
        write(f"{folder}/{run}/metrics.csv", f"epoch,step,loss,lr-SGD,{HOSTILE}\n0,0,1,{lr},2\n0,1,nan,{lr},3\n1,2,0.5,{lr},4\n")
        write(f"{folder}/{run}/metrics_rank_0.csv", "epoch,step,loss\n0,0,0.5\n0,1,1\n")
        write(f"{folder}/{run}/config.yaml", f"# levin 0.1.0\nmodel: {{lr: {lr}, name: '<b>same</b>'}}\n")
        write(f"{folder}/{run}/hparams.yaml", f"lr: {lr}\nname: '<img src=x onerror=\"document.title=1\">'\n")
        write(f"{folder}/{run}/fit-profile-0.txt", "action | total\n--------------\nall    | 1.2 s\n")
        write(f"{folder}/{run}/media/files/{run}/3_plot.svg",
              "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><script>parent.document.title='taken'</script></svg>")
    write(f"{folder}/sweep.json", json.dumps({
        "arguments": [], "monitor": "<b>loss</b>", "maximize": False, "rungs": [0],
        "trials": [{"number": n, "values": {"model.<b>": f"<i>{n}</i>"}, "status": "<b>x</b>", "scores": [n], "seconds": 1, "failure": ""}
                   for n in range(2)]}))
    subprocess.run([levin, "report", folder, "-o", f"{folder}/report.html"], check=True)
    page, wrong = open_page(chromium, folder, f"{folder}/report.html")
    body = page.split("<main", 1)[1].split("<script", 1)[0]
    expected = ["<h3><span title=\"loss\">loss</span>", "document.title='taken'&lt;/script&gt;", "<h2>Learning rate ",
                "<h2>What differs ", "<td class=\"key \">model.lr</td>", "&lt;img src=x onerror=", "1.2 s", "<h2>Figures ", "step 3",
                "&lt;i&gt;1&lt;/i&gt;"]
    wrong += [f"the page lacks {text}" for text in expected if text not in body]
    wrong += [f"the page has {text}" for text in ("<img src=\"x\"", "<b>", "<i>") if text in body]
    if "<title>levin report</title>" not in page:
        wrong.append("a script of a run's has run")
    if body.count("<canvas") != 3:
        wrong.append(f"{body.count('<canvas')} charts instead of 3")
    return wrong


def reader(levin, chromium, folder):
    for trial, (lr, acc) in enumerate(((0.1, 0.5), (0.01, 0.9))):
        run = f"{folder}/sweep/trial_00{trial}"
        write(f"{run}/metrics.csv", "epoch,step,train_loss_step,train_loss_epoch,val_loss,val_acc\n"
              f"0,0,3,,,\n0,1,2,2.5,2,{acc}\n1,2,1,,,\n1,3,0.5,0.75,1,{acc / 2}\n")
        write(f"{run}/config.yaml", f"# levin 0.1.0\nmodel: {{lr: {lr}}}\ntrainer: {{default_root_dir: {trial}}}\n")
        write(f"{run}/media/images/digit/3.png", __import__("base64").b64decode(PIXEL))
    for trial in range(2):
        write(f"{folder}/sweep/trial_00{trial}/hparams.yaml", "a_parameter_whose_name_is_wider_than_the_phone_on_which_it_is_read: 1\n")
        write(f"{folder}/sweep/trial_00{trial}/run.json", json.dumps({"status": "finished", "warnings": ["alike", f"of {trial}"]}))
    write(f"{folder}/sweep/trial_000/media/histograms/one/3.csv", "up_to,count\n2,100\n")
    for rank, loss in enumerate((1, 1.01, 5)):
        write(f"{folder}/sweep/trial_000/metrics_rank_{rank}.csv", f"epoch,step,val_loss\n0,1,{loss}\n")
    write(f"{folder}/sweep/trial_001/run.json", json.dumps({"status": "running", "warnings": ["alike", "of 1"], "pid": 2 ** 22 + 1, "process_start": 1, "host": os.uname().nodename}))
    write(f"{folder}/tested/metrics.csv", "epoch,step,test_acc\n0,0,0.875\n")
    write(f"{folder}/sweep/sweep.json", json.dumps({
        "arguments": [], "monitor": "val_acc", "maximize": True, "rungs": [0],
        "trials": [{"number": n, "values": {"model.lr": lr}, "status": "finished", "scores": [acc], "seconds": 61, "failure": ""}
                   for n, (lr, acc) in enumerate((("0.1", 0.5), ("0.01", 0.9)))]}))
    subprocess.run([levin, "report", folder, "-o", f"{folder}/report.html"], check=True)
    with open(f"{folder}/report.html") as file:
        text = file.read()
    write(f"{folder}/reader.html", text.replace("</body>", READER + "</body>"))
    wrong = []
    for width in (1200, 390):
        page, errors = open_page(chromium, folder, f"{folder}/reader.html", f"--window-size={width},900")
        wrong += errors
        found = re.search('<pre id="seen">(.*?)</pre>', page, re.DOTALL)
        if not found:
            return wrong + ["the reader's script did not end"]
        seen = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        first, second, tested = "sweep/trial_000", "sweep/trial_001", "tested"
        for what, expected in {
            "columns": ["run", "status", "took", "model.lr", "val_acc", "best val_acc", "val_loss", "best val_loss", "train_loss_epoch",
                        "best train_loss_epoch", "ranks", "started", "best checkpoint", "ended by", "tags"],
            "order": [first, second, tested], "up": [first, second, tested], "down": [second, first, tested],
            "byName": [first, second, tested],
            "charts": ["train_loss_epoch, train_loss_step, val_loss", "val_acc"],
            "samples": ["train_loss_epoch", "train_loss_step", "val_loss"],
            "legend": [first, second],
            "tests": [tested, "–", "0.875"],
            "sweep": ["1 trial_001 0.01 0.9 finished 1 min 1 s", "2 trial_000 0.1 0.5 finished 1 min 1 s"],
            "dots": [["trial_000: model.lr 0.1, val_acc 0.5", ""], ["trial_001: model.lr 0.01, val_acc 0.9", "best"]],
            "messages": [f"{first}: rank 2 departs in val_loss: 5 on average, the others 1 to 1.01"],
            "warnings": [f"{first} and 1 more: alike", f"{first}: of 0", f"{second}: of 1"], "buckets": ["", "", "2"], "cut": [], "isTall": False, "isPrinted": True, "ticks": ["0.5", "0.6", "0.7", "0.8", "0.9", "0.02", "0.04", "0.06", "0.08", "0.1"],
            "isOpen": True, "large": True, "isClosed": True, "overflows": False,
            "hover": [f"{first} val_loss 1 ranks 1 to 5 step 3", f"{second} val_loss 1  step 3"] +
                     [f"{run} {name} {value}  step 3" for name, value in (("train_loss_epoch", 0.75), ("train_loss_step", 0.5))
                      for run in (first, second)],
        }.items():
            if seen[what] != expected:
                wrong.append(f"{width} wide: {what} is {seen[what]}, not {expected}")
        if not re.fullmatch(r"process gone; last sign of life \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "|".join(seen["status"])):
            wrong.append(f"status is {seen['status']}")
    return wrong


def main():
    wrong = []
    for check in (hostile_runs, reader):
        with tempfile.TemporaryDirectory() as folder:
            wrong += check(*sys.argv[1:], folder)
    print("\n".join(wrong) or "the pages are as they should be")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
