"""The four published Llama rows, simulated: order, errors, hypotheses."""
from common import spillway, sweep, WORK

AIM_PERCENT = 2
# TFLOPs/s/device of the article, typed in here a second time on purpose.
PUBLISHED = {"QKV offload + LHS": 2746, "QKV offload + LHS + pipelined": 2718, "no offload": 2669,
             "QKV offload, LHS off": 2569}


def run(lines, quick):
    rows = {row["label"]: row for row in sweep("llama3.1-405b-published.json", "published")}
    rates = {label: row["tflops_per_s_per_device"] for label, row in rows.items()}
    if not lines.check("four rows", list(rows), set(rows) == set(PUBLISHED) and None not in rates.values()):
        return
    order = sorted(rates, key=rates.get, reverse=True)
    lines.check("published order: LHS > LHS + pipelined > no offload > LHS off", " > ".join(order),
                order == list(PUBLISHED))
    check_fit(lines, rows)
    for label, expected in PUBLISHED.items():
        error = 100 * (rates[label] / expected - 1)
        shown = rows[label]["published"]["tflops_per_s_per_device"]
        lines.check(f"{label}: set beside {expected}", shown, shown == expected)
        aim = "within the aim" if abs(error) <= AIM_PERCENT else "OUTSIDE the aim"
        lines.info(f"{label}: error, {aim} of {AIM_PERCENT} %", f"{rates[label]:.0f}, {error:+.2f} %")
    check_report(lines, rows)


def check_fit(lines, rows):
    fitted = [row["fitted"] for row in rows.values()]
    one = all(f == fitted[0] for f in fitted) and fitted[0] and fitted[0]["on"] == "no offload"
    lines.check("one figure, fitted on the row without offload, 0 to 1", fitted[0],
                bool(one) and fitted[0]["figure"] == "matmul_efficiency" and 0 < fitted[0]["value"] < 1)


def check_report(lines, rows):
    hypotheses = next(iter(rows.values()))["sweep"]["hypotheses"]
    for format_ in ("md", "html"):
        _, text, _ = spillway("report", WORK / "published", "--format", format_)
        missing = [h["id"] for h in hypotheses if h["id"] not in text]
        lines.check(f"{format_} report names every hypothesis", f"{len(hypotheses)}, missing {missing}",
                    len(hypotheses) >= 3 and not missing)
        errors = [f"{100 * (row['tflops_per_s_per_device'] / PUBLISHED[label] - 1):+.2f}"
                  for label, row in rows.items() if label != "no offload"]
        absent = [e for e in errors if e not in text and e.replace("-", "−") not in text]
        lines.check(f"{format_} report shows each error", f"{errors}, missing {absent}", not absent)
