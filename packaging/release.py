#!/usr/bin/env python3
"""Makes a release archive: the program, its manual and completions, the licences of everything in it, and
a bill of materials.

    packaging/release.py --out dist                      builds with `--profile dist` first
    packaging/release.py --out dist --binary PROGRAM     takes a program that is built already
    packaging/release.py --licences FILE                 writes only the licences, for another kind of package

The same program and the same Cargo.lock give the same bytes: names are sorted, owners and times are fixed
(SOURCE_DATE_EPOCH, else 1980), and nothing of this machine is written. It needs cargo and Python, and no
network when the dependencies were fetched.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: A release can share its log between hosts.
FEATURES = "cluster"
#: The first day that every archive format can hold.
EPOCH = 315_532_800
LICENCE_NAMES = re.compile(r"(LICEN[CS]ES?|COPYING|NOTICES?|UNLICENSE)(?![a-z])(?!.*\.(rs|c|h|py|js|json|toml|ya?ml|html)$)", re.I)
#: Folders of a package whose files are not compiled.
NOT_COMPILED = re.compile(r"(\.|tests?|bench|example|fuzz|resources)", re.I)
SHELLS = {"bash": "summarizer.bash", "zsh": "_summarizer", "fish": "summarizer.fish"}


def text_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def host() -> str:
    """The target triple of this machine."""
    return re.search(r"^host: (.+)$", text_of("rustc", "-vV"), re.M)[1]


def shipped(target: str) -> list[dict[str, Any]]:
    """The packages that are compiled into the program or that build it, without those of tests only."""
    tree = text_of(
        "cargo", "tree", "--locked", "--offline", "--edges", "normal,build", "--prefix", "none",
        "--features", FEATURES, "--format", "{p}", "--target", target,
    )
    wanted = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
    metadata = json.loads(
        text_of(
            "cargo", "metadata", "--locked", "--offline", "--format-version", "1",
            "--filter-platform", target, "--features", FEATURES,
        )
    )
    packages = [one for one in metadata["packages"] if (one["name"], f"v{one['version']}") in wanted]
    missing = len(wanted) - len(packages)
    if missing:
        sys.exit(f"{missing} packages of `cargo tree` are not in `cargo metadata`")
    edges = {node["id"]: node["dependencies"] for node in metadata["resolve"]["nodes"]}
    known = {one["id"] for one in packages}
    for one in packages:
        one["uses"] = sorted(id_ for id_ in edges[one["id"]] if id_ in known)
    return sorted(packages, key=lambda one: (one["name"], one["version"]))


def checksums() -> dict[tuple[str, str], str]:
    """The SHA-256 of each package as Cargo.lock has it."""
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    entry = re.compile(r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "([0-9a-f]{64})"')
    return {(name, version): sum_ for name, version, sum_ in entry.findall(lock)}


def purl(package: dict[str, Any]) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def expression(package: dict[str, Any]) -> str:
    # Old manifests write `MIT/Apache-2.0`, which is no SPDX expression.
    return (package["license"] or "NOASSERTION").replace("/", " OR ")


def bill_of_materials(packages: list[dict[str, Any]], name: str, program: bytes) -> bytes:
    """A CycloneDX 1.5 document. Its serial number follows from its content."""
    sums = checksums()
    refs = {one["id"]: purl(one) for one in packages}
    own = next(one for one in packages if one["name"] == name)

    def component(package: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": "application" if package is own else "library",
            "bom-ref": purl(package),
            "name": package["name"],
            "version": package["version"],
            "licenses": [{"expression": expression(package)}],
            "purl": purl(package),
        }
        sum_ = sums.get((package["name"], package["version"]))
        if package is own:
            sum_ = hashlib.sha256(program).hexdigest()
        if sum_ is not None:
            found["hashes"] = [{"alg": "SHA-256", "content": sum_}]
        if package["repository"]:
            found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
        return found

    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(own)},
        "components": [component(one) for one in packages if one is not own],
        "dependencies": [
            {"ref": purl(one), "dependsOn": sorted(refs[id_] for id_ in one["uses"])}
            for one in packages
        ],
    }
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}"
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def licence_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """The licences of a package, and those of code of others that it carries in folders of its own."""
    found = []
    for where, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if not NOT_COMPILED.match(one)]
        found += [pathlib.Path(where) / one for one in files if LICENCE_NAMES.match(one)]
    return sorted(found)


def licences(packages: list[dict[str, Any]], name: str) -> bytes:
    """Every package with its licence, then each licence text once with the packages it belongs to."""
    rows, without = [], []
    texts: dict[str, list[str]] = {}
    for package in packages:
        if package["name"] == name:
            continue
        label = f"{package['name']} {package['version']}"
        rows.append(f"{label}: {expression(package)}")
        folder = pathlib.Path(package["manifest_path"]).parent
        found = licence_files(folder)
        for path in found:
            text = path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n").strip()
            inner = path.parent.relative_to(folder).as_posix()
            texts.setdefault(text, []).append(label if inner == "." else f"{label}, its folder {inner}")
        if all(path.parent != folder for path in found):
            without.append(label)
    out = ["This program contains the packages below.", "", *rows, ""]
    if without:
        out += ["These packages come without a file of their licence; its name above and the texts below apply:"]
        out += ["", *(f"  {label}" for label in without), ""]
    for text, labels in sorted(texts.items(), key=lambda item: item[1][0]):
        out += ["=" * 80, *(f"  {label}" for label in dict.fromkeys(labels)), "-" * 80, text, ""]
    return ("\n".join(out) + "\n").encode()


def stripped(program: pathlib.Path, into: pathlib.Path) -> bytes:
    """The bytes of the program without symbols; a program that is no ELF file stays as it is."""
    copy = into / "stripped"
    shutil.copyfile(program, copy)
    copy.chmod(0o755)
    if copy.read_bytes()[:4] == b"\x7fELF":
        subprocess.run(["strip", "--strip-all", copy], check=True)
    return copy.read_bytes()


def archive(folder: str, files: dict[str, tuple[bytes, int]], time: int) -> bytes:
    """A .tar.gz whose bytes depend on names, modes, contents and the given time only."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            data, mode = files[name]
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), mode, time
            tar.addfile(entry, io.BytesIO(data))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=time, compresslevel=9) as file:
        file.write(raw.getvalue())
    return packed.getvalue()


def build(target: str) -> pathlib.Path:
    """Builds the program. Paths of this machine are replaced, so that they are not in it."""
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    flags = f"{os.environ.get('RUSTFLAGS', '')} --remap-path-prefix={ROOT}=. --remap-path-prefix={home}=cargo"
    command = ["cargo", "build", "--profile", "dist", "--locked", "--features", FEATURES, "--target", target]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "RUSTFLAGS": flags.strip()})
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return folder / target / "dist" / "summarizer"


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes a release archive with checksums.")
    result = parser.add_mutually_exclusive_group(required=True)
    result.add_argument("--out", type=pathlib.Path, help="folder for the archive and SHA256SUMS")
    result.add_argument("--licences", type=pathlib.Path, help="writes only the licences of all dependencies here")
    parser.add_argument("--binary", type=pathlib.Path, help="a program that is built already")
    parser.add_argument("--target", help="its target triple [default: that of this machine]")
    options = parser.parse_args()

    target = options.target or host()
    packages = shipped(target)
    own = next(one for one in packages if pathlib.Path(one["manifest_path"]) == ROOT / "Cargo.toml")
    name, version = own["name"], own["version"]
    licence_texts = licences(packages, name)
    if options.licences:
        options.licences.parent.mkdir(parents=True, exist_ok=True)
        options.licences.write_bytes(licence_texts)
        print(f"{options.licences}  licences of {len(packages) - 1} packages")
        return

    time = int(os.environ.get("SOURCE_DATE_EPOCH", EPOCH))
    program = (options.binary or build(target)).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        data = stripped(program, pathlib.Path(scratch))
    files: dict[str, tuple[bytes, int]] = {name: (data, 0o755)}
    for page in ("README.md", "CHANGELOG.md", "LICENSE", "LICENSE-APACHE", "LICENSE-MIT"):
        files[page] = ((ROOT / page).read_bytes(), 0o644)
    if target == host():  # another machine's program cannot run here
        files["man/summarizer.1"] = (text_of(str(program), "man").encode(), 0o644)
        for shell, file in SHELLS.items():
            files[f"completions/{file}"] = (text_of(str(program), "completions", shell).encode(), 0o644)
    files["THIRD-PARTY-LICENSES.txt"] = (licence_texts, 0o644)
    bill = bill_of_materials(packages, name, data)
    files["bom.cdx.json"] = (bill, 0o644)

    folder = f"{name}-{version}-{target}"
    outputs = {f"{folder}.tar.gz": archive(folder, files, time), f"{folder}.cdx.json": bill}
    options.out.mkdir(parents=True, exist_ok=True)
    sums = ""
    for file, content in sorted(outputs.items()):
        (options.out / file).write_bytes(content)
        sums += f"{hashlib.sha256(content).hexdigest()}  {file}\n"
        print(f"{options.out / file}  {len(content)} bytes")
    (options.out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    if not own["repository"]:
        print("Cargo.toml names no `repository`, so `cargo binstall` cannot find this archive.", file=sys.stderr)
    print(f"{options.out / 'SHA256SUMS'}  {len(packages) - 1} packages in the bill of materials")


if __name__ == "__main__":
    main()
