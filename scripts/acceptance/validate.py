"""A machine calibrated here predicts what is executed here: errors, exposed transfers, order, memory."""
import json

from common import PROXY, Skip, fresh, spillway

MODELS = [PROXY, "deepseek-v3-proxy"]
FEWEST_POINTS = 20
CALIBRATE_SECONDS, VALIDATE_SECONDS = 180, 900


def show_machine(lines, out):
    """What calibrate printed, all but the rows of ops."""
    for line in out.splitlines():
        if line.startswith(("reference", "a GB/s", "microseconds", "  d2h", "  h2d", "  both")):
            lines.info("calibrate", line.strip())


def check_coverage(lines, points):
    labels = [point["label"] for point in points]
    lines.check(f"at least {FEWEST_POINTS} points, none used to calibrate", len(set(labels)),
                len(set(labels)) >= FEWEST_POINTS and len(set(labels)) == len(labels))
    for word in (*MODELS, "LHS off", "LHS on", "pipelined", "4 x matched", "slower than compute"):
        lines.check(f"points with {word}", sum(word in label for label in labels),
                    any(word in label for label in labels))
    slower = [point for point in points if "slower than compute" in point["label"]]
    ratios = [point["transfer_seconds"] / sum(kind["executed"] for kind in point["busy"].values()) for point in slower]
    lines.check("copies exceed compute at the slowest link", ", ".join(f"{ratio:.2f}" for ratio in ratios),
                all(ratio > 1 for ratio in ratios))


def show_point(lines, point):
    lines.info(point["label"], "executed {:.4f} s, simulated {:.4f} s, error raw {:+.2f} %, normalised {:+.2f} %, "
               "exposed {:.4f} of {:.4f} s, simulated {:.4f} s".format(
                   point["executed"]["median"], point["simulated"], 100 * point["error_raw"], 100 * point["error"],
                   point["exposed_executed"], point["transfer_seconds"], point["exposed_simulated"]))


def run(lines, quick):
    if quick:
        raise Skip("calibrating and validating take a quarter of an hour and more")
    work = fresh("validate")
    work.mkdir(parents=True)
    models = [word for model in MODELS for word in ("--model", model)]
    code, out, err = spillway("calibrate", *models, "--seconds", CALIBRATE_SECONDS, "--out", work / "host.json")
    if not lines.check("calibrate writes a machine file", f"exit code {code} {err[-200:] if code else ''}", code == 0):
        return
    show_machine(lines, out)
    validate = ["validate", "--machine", work / "host.json", *models, "--seconds", VALIDATE_SECONDS,
                "--out", work / "results"]
    code, out, err = spillway(*validate, timeout=3 * 3600)
    if code == 2 or "errors of step time" not in out:
        lines.check("validate runs to its end", f"exit code {code}: {err[-300:]}", False)
        return
    (work / "validation.txt").write_text(out, encoding="utf-8")
    _, out, _ = spillway(*validate, "--json")  # what was run is kept: this judges it again
    result = json.loads(out)
    check_coverage(lines, result["points"])
    for point in result["points"]:
        show_point(lines, point)
    for name, errors in result["errors"].items():
        lines.info(f"errors of step time, {name}",
                   f"median {100 * errors['median']:.2f} %, worst {100 * errors['worst']:.2f} %")
    for limit in result["limits"]:
        lines.check(limit["limit"], limit["figure"], limit["passed"])
    lines.info("every point by kind of op", work / "validation.txt")
