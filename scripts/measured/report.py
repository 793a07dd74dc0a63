"""Predictions as Markdown or JSON: the distribution of errors first, then every row."""
import collections
import json
import math


def distribution(errors):
    """Median, 90 % and worst of the absolute errors, and the mean with its sign; None of nothing."""
    if not errors:
        return None
    ordered = sorted(abs(error) for error in errors)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return {"rows": len(errors), "median": median, "p90": ordered[math.ceil(0.9 * len(ordered)) - 1],
            "worst": ordered[-1], "mean": sum(errors) / len(errors)}


def stated(predictions):
    """The headline: rows that state all that matters."""
    return [p for p in predictions if not p.mapped.apart]


def times(predictions):
    return [p.error() for p in predictions if p.error() is not None]


def peaks(predictions):
    return [p.peak_error() for p in predictions if p.peak_error() is not None]


def groups(predictions):
    """{name: predictions}: all that state everything, each file's, and those set apart."""
    found = {"all that state everything": stated(predictions)}
    for p in stated(predictions):
        found.setdefault(p.mapped.row.file, []).append(p)
        found.setdefault(f"{p.mapped.row.file}, {p.mapped.point['machine']}", []).append(p)
    found["set apart"] = [p for p in predictions if p.mapped.apart]
    return dict(sorted(found.items(), key=lambda item: (item[0] != "all that state everything", item[0])))


def pairs(predictions):
    """Ratios to the first row of each `pair`: [(pair, id, what, predicted, measured)]."""
    firsts, found = {}, []
    for p in predictions:
        pair = p.mapped.row.raw.get("pair")
        if not pair or p.measured is None:
            continue
        first = firsts.setdefault(pair, p)
        if first is not p:
            found.append((pair, p.mapped.row.id, p.mapped.row.raw["role"], p.seconds / first.seconds,
                          p.measured / first.measured))
    return found


def fit(rows):
    """Factors (a, b) on the seconds of matrix products and of attention that make the sum of squared relative
    errors least: two normal equations."""
    aa = ab = bb = ar = br = 0.0
    for p in rows:
        a, b, r = p.matmul / p.measured, p.attention / p.measured, 1 - (p.seconds - p.matmul - p.attention) / p.measured
        aa, ab, bb, ar, br = aa + a * a, ab + a * b, bb + b * b, ar + a * r, br + b * r
    determinant = aa * bb - ab * ab
    return (ar * bb - br * ab) / determinant, (br * aa - ar * ab) / determinant


def calibrated(predictions):
    """[(machine, (a, b), rows fitted on, errors of the others)]: two figures a machine, fitted on every other row
    of the largest file in its order, for machines with at least six rows of it."""
    found = []
    members = [p for p in stated(predictions) if p.mapped.stand_in]
    for machine in sorted({p.mapped.point["machine"] for p in members}):
        rows = [p for p in members if p.mapped.point["machine"] == machine]
        if len(rows) < 6:
            continue
        a, b = fit(rows[::2])
        others = [p for p in stated(predictions) if p.mapped.point["machine"] == machine and not p.mapped.stand_in]
        corrected = lambda p: (p.seconds + (a - 1) * p.matmul + (b - 1) * p.attention) / p.measured - 1
        found.append((machine, (a, b), len(rows[::2]), list(map(corrected, rows[1::2])), list(map(corrected, others))))
    return found


def calibrated_lines(predictions):
    for machine, (a, b), fitted, errors, elsewhere in calibrated(predictions):
        d = distribution(errors)
        yield [machine, f"{a:.2f}", f"{b:.2f}", fitted, d["rows"]] + [
            f"{100 * d[key]:.1f}" for key in ("median", "p90", "worst")] + [
                percent(d["mean"]), ", ".join(map(percent, elsewhere))]


def reasons(mapped):
    return collections.Counter(m.reason for m in mapped if m.reason).most_common()


def percent(share):
    return "" if share is None else f"{100 * share:+.1f}"


def table(header, lines):
    out = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return out + ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]


def distribution_lines(predictions):
    for name, members in groups(predictions).items():
        for what, errors in (("step time", times(members)), ("peak memory", peaks(members))):
            d = distribution(errors)
            if d:
                yield [name, what, d["rows"]] + [f"{100 * d[key]:.1f}" for key in ("median", "p90", "worst")] + [
                    percent(d["mean"])]


def row_line(p):
    row, point = p.mapped.row, p.mapped.point
    gib = "" if row.peak_gib is None else f"{row.peak_gib:.1f}"
    return [row.id, point["machine"], point["devices"], f"{p.seconds:.4g}",
            "" if p.measured is None else f"{p.measured:.4g}", percent(p.error()), f"{p.peak_gib:.1f}", gib,
            percent(p.peak_error())]


ROW_HEADER = ["row", "machine", "FSDP", "predicted, s", "measured, s", "error, %", "predicted, GiB", "measured, GiB",
              "error, %"]


def markdown(mapped, predictions):
    predicted, apart = len(stated(predictions)), sum(bool(p.mapped.apart) for p in predictions)
    out = [f"{len(mapped)} measured rows: {predicted} predicted, {apart} predicted but set apart since they leave open "
           f"what matters or are approximated, {len(mapped) - len(predictions)} that the model cannot express.", ""]
    out += table(["rows", "error of", "number", "median, %", "90 %, %", "worst, %", "mean, %"],
                 distribution_lines(predictions))
    out += ["", "## Two figures a machine calibrated on every other row of llm_foundry_mpt.csv", "",
            "The seconds of matrix products and of attention are multiplied by one factor each; errors are those of "
            "rows not fitted.", ""]
    out += table(["machine", "matrix products", "attention", "fitted on", "held out", "median, %", "90 %, %",
                  "worst, %", "mean, %", "rows of other files, %"], calibrated_lines(predictions))
    out += ["", "## Not expressible", ""] + table(["rows", "reason"], [(n, why) for why, n in reasons(mapped)])
    out += ["", "## Within a pair, time over that of its first row", ""]
    out += table(["pair", "row", "what", "predicted", "measured"],
                 [[pair, row, what, f"{a:.3f}", f"{b:.3f}"] for pair, row, what, a, b in pairs(predictions)])
    out += ["", "## Predicted", ""] + table(ROW_HEADER, map(row_line, stated(predictions)))
    out += ["", "## Set apart", ""] + table(
        ROW_HEADER + ["why"], [row_line(p) + ["; ".join(p.mapped.apart)] for p in predictions if p.mapped.apart])
    return "\n".join(out)


def as_json(mapped, predictions):
    by_id = {p.mapped.row.id: p for p in predictions}
    listed = []
    for m in mapped:
        p = by_id.get(m.row.id)
        listed.append({"file": m.row.file, "id": m.row.id, "reason": m.reason or None, "apart": m.apart,
                       "stand_in": m.stand_in, "point": m.point or None,
                       "predicted_seconds": p and p.seconds, "measured_seconds": p and p.measured,
                       "error": p and p.error(), "predicted_peak_gib": p and p.peak_gib,
                       "measured_peak_gib": m.row.peak_gib, "peak_error": p and p.peak_error()})
    spread = {name: {"step_time": distribution(times(members)), "peak_memory": distribution(peaks(members))}
              for name, members in groups(predictions).items()}
    held_out = [{"machine": machine, "matmul": a, "attention": b, "fitted_on": fitted,
                 "held_out": distribution(errors), "elsewhere": elsewhere}
                for machine, (a, b), fitted, errors, elsewhere in calibrated(predictions)]
    return json.dumps({"rows": listed, "distribution": spread, "reasons": dict(reasons(mapped)),
                       "calibrated": held_out, "pairs": [dict(zip(("pair", "id", "what", "predicted", "measured"), one))
                                 for one in pairs(predictions)]}, indent=1)


def render(mapped, predictions, format_):
    return as_json(mapped, predictions) if format_ == "json" else markdown(mapped, predictions)
