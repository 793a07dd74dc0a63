"""Bad input is refused with exit code 2, naming the place, what was found and what was expected."""
import json
import os
import tempfile

from common import ROOT, spillway, spillway_json

TINY = ["run", "--model", "llama-tiny"]
# Arguments and the words that stderr must hold.
COMMANDS = [
    (TINY + ["--policy", "nope"], ["--policy", "nope", "full", "minimal", "qkv_proj_offloaded"]),
    (TINY + ["--policy", "query_proj=keep"], ["query_proj=keep", "device, offload or remat"]),
    (TINY + ["--policy", "qkv_proj=offload"], ["qkv_proj", "query_proj, key_proj, value_proj"]),
    (TINY + ["--policy", "decoder_layer_input=remat"], ["decoder_layer_input", "device or offload"]),
    (TINY + ["--policy", "context=offload,attention_out=remat"], ["context", "attention_out"]),
    (TINY + ["--bogus", "1"], ["--bogus"]),
    (TINY + ["--micro-batch", "-1"], ["--micro-batch", "-1", "expected"]),
    (TINY + ["--micro-batch", "0"], ["--micro-batch", "0", "expected"]),
    (TINY + ["--seq", "0"], ["--seq", "0", "expected"]),
    (TINY + ["--seq", "4096.5"], ["--seq", "4096.5", "expected"]),
    (TINY + ["--layers", "-3"], ["--layers", "-3", "expected"]),
    (TINY + ["--devices", "0"], ["--devices", "0", "expected"]),
    (TINY + ["--devices", "2"], ["--devices", "2", "sim"]),
    (TINY + ["--steps", "0"], ["--steps", "0", "expected"]),
    (TINY + ["--steps", "3", "--warmup", "3"], ["--warmup", "3", "expected"]),
    (TINY + ["--steps", "3", "--warmup", "4"], ["--warmup", "4", "expected"]),
    (TINY + ["--hbm", "-1"], ["--hbm", "-1", "expected"]),
    (TINY + ["--host", "lots"], ["--host", "lots", "expected"]),
    (TINY + ["--link", "-3"], ["--link", "-3", "expected"]),
    (TINY + ["--link", "match:nowhere"], ["--link", "nowhere"]),
    (TINY + ["--state-bytes", "4,4"], ["--state-bytes", "4,4", "expected"]),
    (TINY + ["--executor", "cuda"], ["--executor", "cuda", "expected"]),
    (TINY + ["--executor", "sim", "--machine", "nope"], ["nope", "gb200-nvl72"]),
    (["run"], ["--model"]),
    (["run", "--model", "nope"], ["nope", "llama3.1-405b"]),
    (["describe", "--model", "/nowhere.json"], ["/nowhere.json", "expected"]),
    (["list", "nope"], ["nope", "models"]),
    (["sweep", "/nowhere.json"], ["/nowhere.json"]),
    (["report", "/nowhere"], ["/nowhere", "expected"]),
    (["report", "/nowhere", "--format", "pdf"], ["--format", "pdf", "html"]),
    ([], ["expected"]),
]
POINT = '{"label": "a", "model": "llama-tiny"%s}'
SWEEP = '{"name": "x", "title": "x", "points": [%s]}'
# Text of a file, the command that reads it, words. FILE stands for its path, which must be named too.
FILES = [
    ('{"name": "x",\n "points": [}', ["sweep", "FILE"], ["line 2"]),
    ('', ["sweep", "FILE"], ["line 1"]),
    ('{"name": "x", "title": "x"}', ["sweep", "FILE"], ["points", "expected"]),
    ('{"name": "x", "colour": 1}', ["sweep", "FILE"], ["colour", "expected"]),
    (SWEEP % '{"model": "llama-tiny"}', ["sweep", "FILE"], ["label", "expected"]),
    (SWEEP % (POINT % ', "seq": -5'), ["sweep", "FILE"], ["seq", "-5", "expected"]),
    (SWEEP % (POINT % ', "sequ": 5'), ["sweep", "FILE"], ["sequ", "expected"]),
    (SWEEP % (POINT % ', "steps": 2, "warmup": 2'), ["sweep", "FILE"], ["warmup"]),
    (SWEEP % f"{POINT % ''}, {POINT % ''}", ["sweep", "FILE"], ["'a'"]),
    ('{"status": "ok"}\n{"sta', ["report", "FILE"], []),
    ('{"name": "m", "figures": {"matmul_peek": {"value": 1, "source": "s"}}}',
     TINY + ["--executor", "sim", "--machine", "FILE"], ["matmul_peek"]),
    ('[1, 2', ["describe", "--model", "FILE"], ["line"]),
    ('[]', ["describe", "--model", "FILE"], ["expected"]),
]


def check_refused(lines, arguments, words, name=None):
    code, out, err = spillway(*arguments)
    missing = [word for word in words if word not in err]
    ok = code == 2 and not out and not missing and bool(err.strip())
    text = " ".join(err.split())[:300]
    if not ok:
        text = f"code {code}, missing {missing}, stdout {out[:60]!r}: {text}"
    lines.check(f"refused: {name or ' '.join(arguments)}", text, ok)


def check_files(lines):
    with tempfile.TemporaryDirectory() as directory:
        for number, (text, command, words) in enumerate(FILES):
            path = os.path.join(directory, f"case{number}.json" + ("l" if command[0] == "report" else ""))
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            check_refused(lines, [path if word == "FILE" else word for word in command], [path, *words],
                          f"{' '.join(command)} with {text!r}")


def cases():
    """(directory of the configs, their expectations): the shared ones where they are, else the tests' copies."""
    shared = ROOT.parent / "shared/cases"
    folder, table = (shared, shared / "expected.json") if shared.is_dir() else (
        ROOT / "tests/workloads/cases", ROOT / "tests/sweeps/cases/expected.json")
    return folder, json.loads(table.read_text(encoding="utf-8"))["configs"]


def check_case(lines, folder, entry):
    path = str(folder / entry["file"])
    if entry["outcome"] == "error":
        check_refused(lines, ["describe", "--model", path, "--json"], [entry["file"], *entry["must_mention"]])
        return
    shape = ["--micro-batch", str(entry.get("batch", 2)), "--seq", str(entry.get("seq", 8192))]
    code, out, err = spillway("describe", "--model", path, *shape, "--json")
    found = json.loads(out) if code == 0 else {}
    wrong = {key: found.get(key) for key, value in entry["values"].items() if found.get(key) != value}
    warned = all(word in err for word in entry.get("must_mention", []))
    lines.check(f"{entry['file']}: {len(entry['values'])} values as expected", f"code {code}, wrong {wrong}, "
                f"warnings {err.strip()[:120]!r}", code == 0 and not wrong and warned)


def check_large_shape(lines):
    """Micro batch 8, sequence 32,768: 6 FLOPs a weight and token of the matrices, attention scores and sums."""
    d = spillway_json("describe", "--model", "llama3.1-405b", "--micro-batch", 8, "--seq", 32768, "--json")
    layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary = 126, 16384, 128, 8, 128, 53248, 128256
    tokens = 8 * 32768
    width = heads * head_dim
    a_layer = 2 * hidden * width + 2 * hidden * kv_heads * head_dim + 3 * hidden * ffn
    matmuls = 6 * tokens * (layers * a_layer + hidden * vocabulary)
    square = 12 * tokens * 32768 * width * layers
    expected = {"flops_step_causal": matmuls + square // 2, "flops_step_full": matmuls + square,
                "q_bytes": 2 * tokens * width, "k_bytes": 2 * tokens * kv_heads * head_dim,
                "qkv_bytes_all_layers": 2 * tokens * (width + 2 * kv_heads * head_dim) * layers}
    wrong = {key: (d[key], value) for key, value in expected.items() if d[key] != value}
    lines.check("describe --micro-batch 8 --seq 32768 is exact", f"{expected['flops_step_full']}, wrong {wrong}",
                not wrong)


def run(lines, quick):
    for arguments, words in COMMANDS:
        check_refused(lines, arguments, words)
    check_files(lines)
    folder, entries = cases()
    for entry in entries:
        check_case(lines, folder, entry)
    check_large_shape(lines)
