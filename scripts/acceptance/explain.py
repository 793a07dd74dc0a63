"""Waterfalls between rows of the published sweeps: they add up, and say what decides."""
import itertools

from common import spillway_json

LLAMA = "llama3.1-405b-published"
DEEPSEEK = "deepseek-v3-published"
LHS, PIPELINED = "QKV offload + LHS", "QKV offload + LHS + pipelined"
ROWS = {LLAMA: ["no offload", LHS, "QKV offload, LHS off", PIPELINED],
        DEEPSEEK: ["remat, LHS off", "remat + LHS", "offload, LHS off", "offload + LHS", "offload + LHS + pipelined"]}
# Differences of published step times, typed in here a second time on purpose: (from, to) -> (s, allowed percent).
PUBLISHED = {("no offload", LHS): (-0.434, 25), (LHS, "QKV offload, LHS off"): (1.038, 25), (LHS, PIPELINED): (0.155, 50)}


def explain(sweep, a, b):
    return spillway_json("explain", a, b, "--sweep", sweep, "--format", "json")


def run(lines, quick):
    for sweep, rows in ROWS.items():
        pairs = list(itertools.combinations(rows, 2))
        if quick and sweep == DEEPSEEK:
            pairs = pairs[:3]
        check_sums(lines, sweep, {pair: explain(sweep, *pair) for pair in pairs})
    for (a, b), (published, allowed) in PUBLISHED.items():
        check_difference(lines, explain(LLAMA, a, b), published, allowed)
    check_pipelining(lines)


def check_sums(lines, sweep, explanations):
    worst = max(abs(sum(item["change"] for item in e["items"]) - e["change_seconds"]) for e in explanations.values())
    lines.check(f"{sweep}: causes of {len(explanations)} pairs of rows sum to the difference, worst remainder, s",
                f"{worst:.1e}", worst <= 1e-9)
    memory = max(abs(sum(m["b"] - m["a"] for m in e["memory"]) - (e["peak_hbm_bytes"][1] - e["peak_hbm_bytes"][0]))
                 for e in explanations.values())
    lines.check(f"{sweep}: memory by cause sums to the growth of the peak, worst remainder, bytes", memory, memory == 0)


def check_difference(lines, explanation, published, allowed):
    ours = explanation["change_seconds"]
    off = 100 * (ours / published - 1)
    lines.check(f"{explanation['b']['label']} - {explanation['a']['label']}: within {allowed} % of {published:+.3f} s",
                f"{ours:+.3f} s ({off:+.0f} %)", abs(off) <= allowed)


def check_pipelining(lines):
    explanation = explain(LLAMA, LHS, PIPELINED)
    lost = [item for item in explanation["items"] if item["change"] > 0]
    largest = max(lost, key=lambda item: item["change"], default=None)
    sentence = explanation["sentences"][0]
    lines.check("what makes LHS + pipelining lose to LHS alone is named", sentence,
                largest is not None and largest["name"] in sentence)
