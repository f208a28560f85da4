"""Does what docs/lightning-to-cpp.md says, with this build's levin: python tests/exported/page_test.py BUILD"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {"python": "pendulum.py", "yaml": "data.yaml", "cpp": "main.cpp", "cmake": "CMakeLists.txt"}


def main(build):
    environment = dict(os.environ, PATH=f"{build}/bin:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", PYTHONPATH=f"{ROOT}/python",
                       PYTHON=sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        commands = []
        for language, text in BLOCK.findall((ROOT / "docs/lightning-to-cpp.md").read_text(encoding="utf-8")):
            if language in FILES:
                (pathlib.Path(folder) / FILES[language]).write_text(text, encoding="utf-8")
            else:
                commands += text.splitlines()
        # The wheel, and where it has CMake's files, is this build.
        script = "\n".join(line for line in commands[2:]).replace("$(python -c 'import levin_train; print(levin_train.cmake_dir())')", str(build))
        done = subprocess.run(["sh", "-ex", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    print(done.stdout, done.stderr, sep="\n")
    if done.returncode:
        return f"a command failed with {done.returncode}"
    by_cpp, by_onnx = float(re.search(r"^([\d.]+) s$", done.stdout, re.MULTILINE)[1]), float(re.search(r"array\(\[([\d.]+)", done.stdout)[1])
    table = float(re.search(r"^period\n([\d.]+)$", done.stdout, re.MULTILINE)[1])
    if abs(by_cpp - 2.011) > 0.05 or abs(by_cpp - by_onnx) > 1e-4 or not 0 < table < 6:
        return f"the program says {by_cpp}, ONNX {by_onnx}, and the table's first row has {table}"
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
