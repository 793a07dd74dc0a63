"""Models with experts: golden values, and the same bits whatever the policy, schedule and routing."""
import collections

from common import check_tests, fresh, rows_of, spillway, write_sweep
from identity import points, visits_of

SHAPES = [(2, 33), (1, 37), (1, 1)]  # micro batch, sequence; the last is one token in all
MODELS = {"deepseek-tiny": ["full", "deepseek_v3_device", "deepseek_v3_offload", "decoder_layer_input=offload",
                            "mla_q=offload,mla_kv=offload"],
          "mixtral-tiny": ["full", "minimal", "minimal_offloaded", "decoder_layer_input=offload",
                           "mlpwi_0=offload,moe_mlpwi_1=offload"]}
ROUTINGS = [{}, {"routing": "uniform"}, {"routing": "zipf:1.2"}, {"routing": "one"}]


def check_case(lines, model, micro_batch, seq, moe):
    name = "-".join([model, f"{micro_batch}x{seq}", *map(str, moe.values())]).replace(":", "")
    content = {"name": name, "title": name, "points": list(points(MODELS[model], poison="on")), "steps_per_visit": 2,
               "defaults": {"model": model, "micro_batch": micro_batch, "seq": seq, "steps": 2, "warmup": 0, **moe}}
    out = fresh(name)
    spillway("sweep", write_sweep(name, content), "--out", out)  # a failed row is seen below
    rows, kinds = rows_of(out), collections.Counter(visits_of(out))
    bad = [f"{row['label']}: {row['reason']}" for row in rows if row["status"] != "ok"]
    lines.check(f"{name}: every variant runs, one list of losses and one digest",
                f"{len(rows)} of {len(content['points'])} rows, {len(kinds)} different {bad[:2] or ''}",
                len(rows) == len(content["points"]) and not bad and len(kinds) == 1)


def run(lines, quick):
    for model in MODELS:
        for micro_batch, seq in SHAPES:
            for routing in ROUTINGS:
                check_case(lines, model, micro_batch, seq, routing)
        check_case(lines, model, 2, 33, {"moe": "capacity", "routing": "zipf:1.2"})
    check_tests(lines, "golden values of transformers' DeepSeek-V3 and Mixtral, router choices among them",
                "workloads_tests", "*DecoderGolden*:*ExpertGolden*")
