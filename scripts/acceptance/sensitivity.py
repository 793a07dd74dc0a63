"""Hypotheses and assumed constants of the published sweeps: what each decides, free parameters, figures side by side."""
import json
import pathlib

from common import ROOT, check_tests, spillway_json

SWEEPS = ["llama3.1-405b-published", "deepseek-v3-published"]


def run(lines, quick):
    check_tests(lines, "no hidden knob", "sweeps_tests", "Sweeps/PublishedKnobs.*")
    names = SWEEPS[:1] if quick else SWEEPS
    result = spillway_json("sensitivity", *names, "--format", "json")
    for sweep in result["sweeps"]:
        check_sweep(lines, sweep)
    for sweep in result["sweeps"]:
        for transfer in sweep["transfers"]:
            errors = ", ".join(f"{row['label']} {row['error_percent']:+.1f} %" for row in transfer["rows"]
                               if row["error_percent"] is not None)
            lines.info(f"{sweep['name']} with the {transfer['label']}, {transfer['fitted']:.4f}", errors)
    for rates in zip(*(sweep["rates"] for sweep in result["sweeps"])):
        fitted = ", ".join(f"{sweep['name']} {rate['fitted'] / 1e12:.0f}" for sweep, rate in zip(result["sweeps"], rates))
        lines.info(f"TFLOP/s of a {rates[0]['precision']} matmul",
                   f"{fitted}; by the machine file {rates[0]['machine'] / 1e12:.0f} of {rates[0]['peak'] / 1e12:.0f}")


def check_sweep(lines, sweep):
    name = sweep["name"]
    free = sweep["free_parameters"]
    lines.check(f"{name}: free parameters, at most one of them fitted",
                f"{sum(map(len, free.values()))}: {', '.join(f'{len(v)} {k}' for k, v in free.items())}",
                len(free["fitted"]) <= 1)
    lines.info(f"{name}: assumed constants that move a row", ", ".join(free["constants"]))
    stated = json.loads((pathlib.Path(ROOT) / "sweeps" / f"{name}.json").read_text(encoding="utf-8"))["hypotheses"]
    wanted = {h["id"]: len(h.get("alternatives", [])) for h in stated}
    found = {h["id"]: len(h["alternatives"]) for h in sweep["hypotheses"]}
    lines.check(f"{name}: every alternative of every hypothesis was run", found, found == wanted)
    unused = [c["figure"] for c in sweep["constants"] if not c["variations"]]
    lines.check(f"{name}: every assumed constant was run at another value", f"{len(sweep['constants'])}, not: {unused}",
                len(sweep["constants"]) > 0 and not unused)
    for hypothesis in sweep["hypotheses"]:
        refuted = [a["label"] for a in hypothesis["alternatives"] if a["contradiction"]]
        said = "as in the file" if hypothesis["agrees"] else f"the file says '{hypothesis['status']}'"
        lines.info(f"{name}, {hypothesis['id']}: {hypothesis['verdict']}, {said}",
                   f"refuted {refuted} of {len(hypothesis['alternatives'])}")
