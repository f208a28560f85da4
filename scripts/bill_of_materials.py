"""The bill of materials of a package, as SPDX 2.3 in JSON: levin, the libraries that it carries, and those that it needs.

    scripts/bill_of_materials.py FOLDER VERSION TORCH TARGET     of what is unpacked in FOLDER
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

# The libraries that liblevin is linked to: Debian's package, the licence, and how the names of the files begin.
LINKED = {"yaml-cpp": ("libyaml-cpp0.7", "MIT", "libyaml-cpp"), "fmt": ("libfmt9", "MIT", "libfmt"),
          "libpng": ("libpng16-16", "libpng-2.0", "libpng"), "protobuf": ("libprotobuf-lite32", "BSD-3-Clause", "libprotobuf-lite"),
          "zlib": ("zlib1g", "Zlib", "libz"), "libjpeg-turbo": ("libjpeg62-turbo", "IJG AND BSD-3-Clause AND Zlib", "libjpeg"),
          "libwebp": ("libwebp7", "BSD-3-Clause", "libwebp"), "pcre2": ("libpcre2-8-0", "BSD-3-Clause", "libpcre2-8"),
          "utf8proc": ("libutf8proc2", "MIT", "libutf8proc"), "zstd": ("libzstd1", "BSD-3-Clause", "libzstd")}
# Compiled in, from headers or an archive: not seen as a library.
COMPILED_IN = {"nlohmann-json": ("nlohmann-json3-dev", "MIT"), "CLI11": ("libcli11-dev", "BSD-3-Clause"), "agg": ("libagg-dev", "BSD-3-Clause")}


def _version(debian_package):
    """The version that was linked: of the Debian package, such as 0.7.0+dfsg-8."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", debian_package], stdout=subprocess.PIPE, text=True)
    return done.stdout if done.returncode == 0 else "NOASSERTION"


def _package(name, version, licence, location="NOASSERTION"):
    return {"SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name), "name": name, "versionInfo": version, "downloadLocation": location,
            "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION", "filesAnalyzed": False}


def write(folder, version, torch, target):
    """Writes the bill of what is in `folder` to `target`, in it, and gives `target`."""
    carried = {name for name, (_, _, stem) in LINKED.items() if list(pathlib.Path(folder).glob(f"levin_train.libs/{stem}*.so*"))}
    linked = [_package(name, _version(package), licence) for name, (package, licence, _) in LINKED.items()]
    compiled = [_package(name, _version(package), licence) for name, (package, licence) in COMPILED_IN.items()]
    needed = _package("torch", torch, "BSD-3-Clause", f"https://pypi.org/project/torch/{torch}/")
    files = sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file() and path.name != "RECORD")
    listed = [{"SPDXID": f"SPDXRef-File-{index}", "fileName": f"./{path.relative_to(folder)}", "licenseConcluded": "NOASSERTION",
               "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION",
               "checksums": [{"algorithm": kind.upper(), "checksumValue": hashlib.new(kind, path.read_bytes()).hexdigest()}
                             for kind in ("sha1", "sha256")]} for index, path in enumerate(files)]
    sums = "".join(sorted(file["checksums"][0]["checksumValue"] for file in listed))
    levin = {**_package("levin", version, "Apache-2.0"), "filesAnalyzed": True, "licenseInfoFromFiles": ["NOASSERTION"],
             "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1(sums.encode()).hexdigest()}}
    related = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-levin"), ("SPDXRef-levin", "DEPENDS_ON", needed["SPDXID"])]
    related += [("SPDXRef-levin", "CONTAINS" if package["name"] in carried else "DEPENDS_ON", package["SPDXID"]) for package in linked]
    related += [("SPDXRef-levin", "CONTAINS", package["SPDXID"]) for package in compiled]
    related += [("SPDXRef-levin", "CONTAINS", file["SPDXID"]) for file in listed]
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"levin-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/levin-{version}-{hashlib.sha256(sums.encode()).hexdigest()[:32]}",
        "creationInfo": {"created": moment, "creators": ["Tool: levin"]},
        "packages": [levin, *linked, *compiled, needed], "files": listed,
        "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in related]}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=1) + "\n")
    return target


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4]))
