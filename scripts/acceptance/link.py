"""With the link matched, pipelined copies are hidden; at an eighth of it the order of variants is plain."""
import json

from common import HERE, Skip, WORK, check_tests, hidden_share, percent, run_json, spillway, sweep, write_sweep

TIMED_STEPS = 10
BUDGET_SECONDS = 480  # of timed steps in one sweep; a machine without bf16 products runs fewer layers
FEWEST_LAYERS = 4
OFF, ON, PIPELINED = "LHS off", "LHS on", "LHS on, pipelined"


def layers_in_budget(content, all_layers=24, dense=0):
    """The proxy's own layers (None), or so many that the sweep ends in about the budget. `dense`: its dense
    layers, where experts follow them."""
    few, more = dense + 1, dense + 3
    short = [run_json("--model", content["defaults"]["model"], "--layers", layers, "--steps", 2, "--warmup",
                      1)["step_seconds"]["median"] for layers in (few, more)]
    a_layer = max((short[1] - short[0]) / (more - few), 1e-3)
    steps = content["defaults"]["steps"] * len(content["points"])
    affordable = few + int((BUDGET_SECONDS / steps - short[0]) / a_layer)
    return None if affordable >= all_layers else max(dense + FEWEST_LAYERS, affordable)


def rows_by_label(lines, file, name):
    content = json.loads((HERE / file).read_text(encoding="utf-8"))
    layers = layers_in_budget(content)
    if layers:
        content["defaults"]["layers"] = layers
    lines.info(f"{name}: layers of the proxy", layers or "all 24")
    rows = {row["label"]: row for row in sweep(write_sweep(name, content), name)}
    for label, row in rows.items():
        timed = row["status"] == "ok" and row["step_seconds"]["n"] >= TIMED_STEPS
        figure = row["reason"] or "{median:.3f} s ({min:.3f} to {max:.3f}, n {n})".format(**row["step_seconds"])
        if not lines.check(f"{name}: {label}, at least {TIMED_STEPS} timed steps", figure, timed):
            raise Skip(f"{name}: nothing to compare without {label}")
    lines.info(f"{name}: link, GB/s", f"{next(iter(rows.values()))['link_bytes_per_second'] / 1e9:.4f}")
    return rows


def part(row, direction):
    return [t for t in row["transfers"] if t["direction"] == direction]


def check_hiding(lines, rows):
    shares = {label: hidden_share(rows[label]["transfers"]) for label in (OFF, ON, PIPELINED)}
    lines.check("matched: LHS on + pipelined hides at least 95 % of transfer time",
                percent(shares[PIPELINED]), shares[PIPELINED] >= 0.95)
    # Below zero: compute wakes up after the copy is over, which counts as waiting.
    lines.check("matched: LHS off hides none (-10 to 2 %)", percent(shares[OFF]), -0.10 <= shares[OFF] <= 0.02)
    writes, reads = (hidden_share(part(rows[ON], direction)) for direction in ("d2h", "h2d"))
    lines.check("matched: LHS on alone hides its writes (95 %)", percent(writes), writes >= 0.95)
    lines.info("matched: LHS on alone hides of its reads", percent(reads))


def check_report(lines):
    _, text, _ = spillway("report", WORK / "link", "--format", "md")
    why = [line for line in text.splitlines() if "LHS moves work within one body" in line]
    told = len(why) == 1 and "of its writes" in why[0] and "of its reads" in why[0]
    lines.check("matched: the report tells reads and writes apart, and why", why[0][:160] if why else "-", told)


def report_ratio(lines, rows):
    """Step time over that of recomputation, for the reader to judge."""
    remat = rows["remat"]["step_seconds"]
    for label in ("device", OFF, ON, PIPELINED):
        step = rows[label]["step_seconds"]
        lines.info(f"matched: step of {label} : remat",
                   f"{step['median'] / remat['median']:.4f} (widest range {step['min'] / remat['max']:.4f} to "
                   f"{step['max'] / remat['min']:.4f})")


def check_eighth(lines, rows):
    medians = {label: rows[label]["step_seconds"]["median"] for label in (OFF, ON, PIPELINED)}
    figure = ", ".join(f"{label} {seconds:.3f} s" for label, seconds in medians.items())
    lines.check("at an eighth: pipelined faster than LHS alone", figure, medians[PIPELINED] < medians[ON])
    lines.check("at an eighth: LHS alone faster than LHS off", figure, medians[ON] < medians[OFF])
    off = rows[OFF]
    expected = 2 * off["offloaded_bytes_per_step"] / off["link_bytes_per_second"]  # there and back
    ratio = off["exposed_transfer_seconds"] / expected
    lines.check("at an eighth: LHS off's exposed time is bytes over link rate within 10 %",
                f"{off['exposed_transfer_seconds']:.4f} s of {expected:.4f} s, ratio {ratio:.3f}",
                abs(ratio - 1) <= 0.10)


def run(lines, quick):
    if quick:
        raise Skip("timed sweeps take minutes")
    check_tests(lines, "the matched link keeps the full-size ratio of a copy to a layer", "sweeps_tests",
                "LinkTest.MatchesTheRatioOfTheFullSizePoint")
    matched = rows_by_label(lines, "link.json", "link")
    check_hiding(lines, matched)
    check_report(lines)
    report_ratio(lines, matched)
    check_eighth(lines, rows_by_label(lines, "link8.json", "link8"))
