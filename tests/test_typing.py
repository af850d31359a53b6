"""What a type checker says of programs that use the packages: one that is right, and many mistakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.real_time
def test_programs() -> None:
    """When mypy --strict reads them, it should accept the right program and see each mistake of the other one."""
    done = mypy("tests/typing")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.real_time
def test_mistakes_are_seen(tmp_path: Path) -> None:
    """When the ignores are taken away, mypy should report an error on every line that had one, and on no other."""
    text = (ROOT / "tests/typing/refused.py").read_text()
    expected = [number for number, line in enumerate(text.splitlines(), 1) if "type: ignore[" in line]
    bare = tmp_path / "bare.py"
    bare.write_text(text.replace("# type: ignore[", "# was ["))
    done = mypy("--no-error-summary", str(bare))
    reported = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert sorted(reported) == expected
