"""What the groups share: printed lines, running the program, reading results, running unit tests."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ["SPILLWAY_TIMED_TESTS"] = "1"  # tests that depend on timing run here and nowhere else
BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD") or ROOT / "build/release").resolve()
WORK = BUILD / "acceptance"  # results of sweeps, read by later groups
HERE = pathlib.Path(__file__).resolve().parent

PROXY = "llama3.1-405b-proxy"
QKV_ON_DEVICE = "query_proj=device,key_proj=device,value_proj=device"
GIB = 2.0**30


class Unusable(Exception):
    """Something a group needs is missing or broken: its line fails."""


class Skip(Exception):
    """The group is left out on purpose."""


class Lines:
    """Prints one line per promise and counts."""

    def __init__(self):
        self.passed = self.infos = 0
        self.failed = []

    def check(self, what, figure, ok):
        self._print("pass" if ok else "FAIL", what, figure)
        if ok:
            self.passed += 1
        else:
            self.failed.append(what)
        return ok

    def info(self, what, figure):
        self._print("info", what, figure)
        self.infos += 1

    def _print(self, verdict, what, figure):
        print(f"{verdict}  {what}: {figure}", flush=True)


def program():
    path = BUILD / "spillway"
    if not path.exists():
        raise Unusable(f"{path} is missing: build the release preset, or set SPILLWAY_BUILD")
    return str(path)


def spillway(*arguments, cwd=None, timeout=3600):
    """Runs the program and returns (exit code, stdout, stderr)."""
    done = subprocess.run([program(), *map(str, arguments)], cwd=cwd, capture_output=True,
                          text=True, timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr


def spillway_json(*arguments):
    """The one JSON object on stdout."""
    code, out, err = spillway(*arguments)
    if code != 0:
        raise Unusable(f"spillway {' '.join(map(str, arguments))}: exit code {code}: {err.strip()[-500:]}")
    return json.loads(out)


def run_json(*options):
    return spillway_json("run", *options, "--json", "-")


def fresh(name):
    """An empty directory for the results of a sweep."""
    path = WORK / name
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def sweep(file, name):
    """Runs a sweep from the start into WORK/name; returns its rows, failed ones included."""
    out = fresh(name)
    code, _, err = spillway("sweep", file, "--out", out)
    if code not in (0, 1):
        raise Unusable(f"spillway sweep {file}: exit code {code}: {err.strip()[-500:]}")
    return rows_of(out)


def rows_of(directory):
    """The rows of a report over a directory; [] when it holds no results."""
    if not (pathlib.Path(directory) / "results.jsonl").exists():
        return []
    return spillway_json("report", directory, "--format", "json")["rows"]


def write_sweep(name, content):
    """A sweep file in WORK from a Python object."""
    path = WORK / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
    return path


def hidden_share(transfers):
    """Share of the copy lanes' busy time during which compute did not wait for them; None without transfers."""
    seconds = sum(t["seconds"] for t in transfers)
    exposed = sum(t["exposed_seconds"] for t in transfers)
    return 1 - exposed / seconds if seconds > 0 else None


def percent(share):
    return "-" if share is None else f"{100 * share:.2f} %"


def unit_tests(binary, pattern):
    """Runs GoogleTest tests and returns their JSON records, with 'output' for failures; raises when none match."""
    path = BUILD / binary
    if not path.exists():
        raise Unusable(f"{path} is missing: build the release preset")
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([path, f"--gtest_filter={pattern}", f"--gtest_output=json:{file.name}"],
                       capture_output=True, timeout=3600, check=False)
        text = pathlib.Path(file.name).read_text(encoding="utf-8")
    if not text:
        raise Unusable(f"{binary} --gtest_filter={pattern} ended without a result")
    suites = json.loads(text).get("testsuites", [])
    return [test for suite in suites for test in suite["testsuite"] if test["status"] == "RUN"]


def benchmarks(pattern, why_none):
    """The JSON records of five repetitions of the benchmarks that match; raises when there are none."""
    path = BUILD / "spillway_bench"
    if not path.exists():
        raise Unusable(f"{path} is missing: it needs Google Benchmark and a release build")
    done = subprocess.run([path, f"--benchmark_filter={pattern}", "--benchmark_repetitions=5",
                           "--benchmark_format=json"], capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode != 0:
        raise Unusable(f"spillway_bench: exit code {done.returncode}: {done.stderr[-300:]}")
    records = json.loads(done.stdout)["benchmarks"] if done.stdout.startswith("{") else []  # no match: no JSON
    runs = [record for record in records if record["run_type"] == "iteration"]
    if not runs:
        raise Unusable(why_none)
    return runs


STANDARD_FIELDS = {"name", "file", "line", "status", "result", "timestamp", "time", "classname",
                   "failures", "value_param", "type_param"}


def check_tests(lines, what, binary, pattern):
    """One line per test: its time and the properties it recorded. No test is a failure."""
    try:
        records = unit_tests(binary, pattern)
    except Unusable as error:
        lines.check(what, str(error), False)
        return
    if not records:
        lines.check(what, f"{binary} has no test that matches {pattern}", False)
    for test in records:
        failures = [failure["failure"][:300] for failure in test.get("failures", [])]
        recorded = {key: value for key, value in test.items() if key not in STANDARD_FIELDS}
        figure = ", ".join([f"{key} {value}" for key, value in recorded.items()] + failures)
        ok = not failures and test["result"] == "COMPLETED"
        lines.check(f"{what}: {test['classname']}.{test['name']}",
                    f"{figure + ', ' if figure else ''}{test['time']}", ok)
