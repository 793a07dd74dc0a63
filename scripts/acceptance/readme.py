"""README's first screen shows a real table, and its commands run as they are written."""
import os
import subprocess
import tempfile

from common import BUILD, ROOT, program

FIRST_SCREEN = 40  # lines
SLOW = ["llama3.1-405b-proxy"]  # commands that execute the proxy


def commands(text):
    """Indented lines that start with the program's name, their continuations joined, comments cut."""
    joined = text.replace("\\\n", " ")
    return [line.split("#")[0].strip() for line in joined.splitlines() if line.startswith("    spillway ")]


def check_first_screen(lines, text):
    screen = text.splitlines()[:FIRST_SCREEN]
    for command in ("scripts/quickstart.sh", "scripts/test.sh"):
        lines.check(f"first screen names {command}", command, any(command in line for line in screen))
    rows = [line for line in screen if line.lstrip().startswith("|")]
    lines.check("first screen shows the table (10 rows, at least two headings)", f"{len(rows)} lines", len(rows) >= 12)


def run(lines, quick):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    check_first_screen(lines, text)
    environment = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    program()
    with tempfile.TemporaryDirectory() as directory:
        for command in commands(text):
            if quick and any(word in command for word in SLOW):
                lines.info(f"left out by --quick: {command}", "-")
                continue
            done = subprocess.run(command, shell=True, cwd=directory, env=environment, capture_output=True,
                                  text=True, timeout=3600, check=False)
            words = done.stdout if done.returncode == 0 else done.stderr
            last = next(iter(words.strip().splitlines()[-1:]), "")
            lines.check(f"README: {' '.join(command.split())}", f"exit code {done.returncode} {last[:100]}",
                        done.returncode == 0)
