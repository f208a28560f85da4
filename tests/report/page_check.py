#!/usr/bin/env python3
"""Opens a page of `levin report` in a browser without a window, and looks at what it made of hostile runs: page_check.py LEVIN CHROMIUM"""
import os
import subprocess
import sys
import tempfile

HOSTILE = "</script><script>document.title='taken'</script>"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def main():
    levin, chromium = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for run, lr in (("version_0", 0.1), ("version_1", 0.2)):
            write(f"{folder}/{run}/metrics.csv", f"epoch,step,loss,lr-SGD,{HOSTILE}\n0,0,1,{lr},2\n0,1,nan,{lr},3\n1,2,0.5,{lr},4\n")
            write(f"{folder}/{run}/metrics_rank_0.csv", "epoch,step,loss\n0,0,0.5\n0,1,1\n")
            write(f"{folder}/{run}/config.yaml", f"# levin 0.1.0\nmodel: {{lr: {lr}, name: '<b>same</b>'}}\n")
            write(f"{folder}/{run}/hparams.yaml", f"lr: {lr}\nname: '<img src=x onerror=\"document.title=1\">'\n")
            write(f"{folder}/{run}/fit-profile-0.txt", "action | total\n--------------\nall    | 1.2 s\n")
            write(f"{folder}/{run}/media/files/{run}/3_plot.svg",
                  "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><script>parent.document.title='taken'</script></svg>")
        subprocess.run([levin, "report", folder, "-o", f"{folder}/report.html"], check=True)
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile", "--dump-dom",
                   "--virtual-time-budget=3000", "--enable-logging=stderr", f"file://{folder}/report.html"]
        page = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    body = page.stdout.split("<main", 1)[1].split("<script", 1)[0]
    wrong = [line for line in page.stderr.splitlines() if "CONSOLE" in line and "Uncaught" in line]
    expected = ["<h3><span title=\"loss\">loss</span>", "document.title='taken'&lt;/script&gt;", "<h2>Learning rate ",
                "<h2>What differs ", "<td class=\"key \">model.lr</td>", "&lt;img src=x onerror=", "1.2 s", "<h2>Figures ", "step 3"]
    wrong += [f"the page lacks {text}" for text in expected if text not in body]
    wrong += [f"the page has {text}" for text in ("<img src=\"x\"", "<b>") if text in body]
    if "<title>levin report</title>" not in page.stdout:
        wrong.append("a script of a run's has run")
    if body.count("<canvas") != 3:
        wrong.append(f"{body.count('<canvas')} charts instead of 3")
    print("\n".join(wrong) or "the page is as it should be")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
