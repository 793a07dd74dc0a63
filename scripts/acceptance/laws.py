"""Laws of the simulator on random programs and on every row of the shipped sweeps."""
import json
import subprocess

from common import BUILD, WORK, Unusable

# Line, unit of the deviation, test by name without its suite.
LAWS = [
    ("bytes moved per lane equal the plan", "bytes", "BytesMovedEqualThePlan"),
    ("no resource over 100 %, highest use less 1", "", "NoResourceIsUsedBeyondItsCapacity"),
    ("busy + waiting + idle = step time on every lane, difference over the step", "",
     "EveryLaneAccountsForTheStep"),
    ("doubling every rate halves every time, without latencies, difference over the half", "",
     "DoubleRatesHalveTheStep"),
    ("a faster link, fabric or compute lengthens no step by more than 0.1 %, longest", "",
     "FasterNeverLengthens*"),
    ("one device, transfers free: offload = device, remat = device + recompute, difference", "s",
     "FreeTransfersMakeOffloadAsFastAsDevice"),
    ("live bytes stay under the planned peak", "bytes", "LiveBytesStayUnderThePlannedPeak"),
    ("loops run until they repeat = every iteration, to 1e-9 of each figure", "",
     "SimSteady*.RandomLoops*:SimSteady*.*Published"),
    ("ranks: the slowest decides, equal ranks are one", "", "SimRanks.*"),
]


def tests_of(suites, pattern):
    if "." in pattern:
        return pattern
    return ":".join(f"{suite}.{pattern}" for suite in suites)


def run_tests(binary, pattern):
    """(tests run, failures, largest deviation or None) of one executable."""
    out = WORK / "laws.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    subprocess.run([BUILD / binary, f"--gtest_filter={pattern}", f"--gtest_output=json:{out}"],
                   capture_output=True, text=True, timeout=3600, check=False)
    if not out.exists():
        raise Unusable(f"{binary} --gtest_filter={pattern} wrote no result")
    done = json.loads(out.read_text(encoding="utf-8"))
    tests = [test for suite in done["testsuites"] for test in suite["testsuite"]]
    deviations = [float(test["deviation"]) * 1e-9 for test in tests if "deviation" in test]
    return len(tests), done["failures"] + done["errors"], max(deviations, default=None)


def run(lines, quick):
    for what, unit, pattern in LAWS:
        ran = failures = 0
        worst = None
        for binary in ("harness_tests", "sweeps_tests"):
            wanted = tests_of(("SimLaws", "SimLawsRows"), pattern)
            count, bad, deviation = run_tests(binary, wanted)
            ran, failures = ran + count, failures + bad
            if deviation is not None:
                worst = deviation if worst is None else max(worst, deviation)
        figure = f"{ran} tests, {failures} failed"
        if worst is not None:
            figure = f"{worst:.2g}{' ' + unit if unit else ''} ({figure})"
        lines.check(what, figure, ran > 0 and failures == 0)
