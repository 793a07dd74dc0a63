"""Plans of models with experts are true and tight; races are noticed in their schedules too."""
import json

from common import ROOT, check_tests, run_json
from plan import ONE_STEP, check_capacity, check_tight, options_of

TINY = [["deepseek-tiny", "--micro-batch", "2", "--seq", "33", "--policy", "deepseek_v3_offload"],
        ["deepseek-tiny", "--micro-batch", "1", "--seq", "1", "--policy", "full", "--routing", "one"],
        ["deepseek-tiny", "--micro-batch", "2", "--seq", "64", "--policy", "deepseek_v3_offload", "--pipeline", "on",
         "--routing", "zipf:1.2"],
        ["deepseek-tiny", "--micro-batch", "2", "--seq", "33", "--policy", "deepseek_v3_device", "--moe", "capacity"],
        ["mixtral-tiny", "--micro-batch", "2", "--seq", "33", "--policy", "minimal_offloaded", "--lhs", "off"]]


def run(lines, quick):
    for words in TINY:
        options = ["--model", *words, *ONE_STEP]
        result = run_json(*options)
        check_capacity(lines, " ".join(words), options, result["peak_hbm_bytes"])
        if words[4] != "1":  # of one token a tensor is smaller than the alignment of its offset
            check_tight(lines, " ".join(words), result)
    sweep = json.loads((ROOT / "sweeps/deepseek-v3-published.json").read_text(encoding="utf-8"))
    for point in sweep["points"]:
        check_tight(lines, point["label"], run_json(*options_of({**sweep["defaults"], **point})))
    check_tests(lines, "any single wait less is refused, in schedules with experts too", "sweeps_tests",
                "RaceVariants.*")
    check_tests(lines, "the highest byte that a step changes is the peak's", "sweeps_tests", "PlanTruth.*")
