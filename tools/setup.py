"""Sets up .venv with the pinned versions, and with PyTorch's CPU build where there is no GPU.

On Linux the package index offers a PyTorch with gigabytes of GPU libraries under its plain name.
Where no GPU is found and that one would be taken, uv is asked for the CPU build instead: it knows
where PyTorch keeps it. Needs nothing but Python.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "constraints.txt"


def main() -> None:
    if sys.version_info < (3, 10):  # noqa: UP036
        sys.exit("Python 3.10 or later is needed. Say which: make PYTHON=python3.12 …")
    python = VENV / ("Scripts" if platform.system() == "Windows" else "bin") / "python"
    if not python.exists():
        tell("Setting up .venv, once; this takes a minute or two …")
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        pip(python, "install", "pip>=23.2")  # older ones cannot say what they would install
    if platform.system() == "Linux" and not has_gpu() and would_take_gpu_build(python):
        install_cpu_build(python)
    pip(python, "install", "--constraint", str(CONSTRAINTS), "--editable", f"{ROOT}[dev]")


def has_gpu() -> bool:
    return any(Path(device).exists() for device in ("/dev/nvidia0", "/dev/kfd", "/dev/dxg"))


def would_take_gpu_build(python: Path) -> bool:
    """Whether pip, left alone, would fetch GPU libraries; not if some PyTorch is there already."""
    if (
        subprocess.run(
            [python, "-m", "pip", "show", "--quiet", "torch"], capture_output=True
        ).returncode
        == 0
    ):
        return False
    asked = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    asked += ["--dry-run", "--no-deps", "--report", "-", pinned_torch()]
    found = subprocess.run(asked, capture_output=True, text=True)
    if found.returncode:
        return False
    (torch,) = json.loads(found.stdout)["install"]
    return any(re.match("nvidia|cuda", need) for need in torch["metadata"].get("requires_dist", []))


def install_cpu_build(python: Path) -> None:
    tell("There is no GPU: taking PyTorch's CPU build.")
    try:
        pip(python, "install", "uv")
        asked = [python, "-m", "uv", "pip", "install", "--quiet", "--python", python]
        subprocess.run([*asked, "--torch-backend", "cpu", pinned_torch()], check=True)
    except subprocess.CalledProcessError:
        tell("It could not be fetched. Going on with the usual build, which works, but is large.")


def pinned_torch() -> str:
    found = re.search(r"^torch==\S+", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return found[0]


def pip(python: Path, *arguments: str) -> None:
    asked = [python, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    subprocess.run(asked, check=True)


def tell(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"Setting up failed: {' '.join(map(str, error.cmd))}")
