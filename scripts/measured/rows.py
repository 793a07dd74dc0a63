"""Measured rows as read: one record a row of any of the files, numbers parsed, blanks None."""
import csv
import re

# Tables of dimensions, not of measurements.
TABLES = ("models.csv", "systems.csv")


def number(text):
    """The number a cell begins with ("128 x dp 2" -> 128); None where there is none."""
    found = re.match(r"\s*(\d+(?:\.\d+)?)", text or "")
    return float(found.group(1)) if found else None


def whole(text):
    value = number(text)
    return None if value is None else int(value)


def read_table(path):
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def degrees(text):
    """{"tp": 4, "pp": 8, ...} of a text such as "tp4 pp8 vpp5 dp1"; "dp4 pp2 tp1" too."""
    return {kind: int(value) for kind, value in re.findall(r"\b(tp|pp|vpp|cp|ep|dp|sp)\s?(\d+)", text)}


class Measured:
    """One measured row. `raw` keeps the cells."""

    def __init__(self, file, raw):
        self.file, self.raw = file, raw
        self.id, self.model = raw["id"], raw["model"]
        get = lambda key: (raw.get(key) or "").strip()
        self.system, self.precision = get("system"), get("precision")
        self.gpus, self.seq = whole(get("gpus")), whole(get("seq_len"))
        self.micro_batch = whole(get("mbs_seqs"))
        self.global_batch = whole(get("gbs_seqs"))
        self.sharding, self.recompute = get("sharding"), get("recompute")
        self.offload, self.parallelism = get("offload"), get("parallelism")
        self.fsdp, self.replicas = self.data_parallel(get("dp_or_fsdp"))
        given = {kind: whole(get(kind)) for kind in ("tp", "pp", "cp", "ep")}
        self.degrees = {k: v for k, v in given.items() if v} | degrees(self.parallelism)
        self.accumulate = self.accumulations(whole(get("grad_accum")))
        self.seconds = number(get("step_time_s"))
        self.tflops = number(get("model_tflops_per_gpu") or get("tflops_per_gpu"))
        self.tokens_per_s = number(get("tokens_per_s_per_gpu") or get("tokens_per_s"))
        self.peak_gib, self.mem_kind = self.memory(get), get("mem_kind")

    @staticmethod
    def data_parallel(text):
        """"fsdp 8 x dp 2" -> (8, 2), "512" -> (512, 1)."""
        both = re.match(r"fsdp (\d+) x dp (\d+)", text)
        if both:
            return int(both.group(1)), int(both.group(2))
        return whole(text), 1

    def accumulations(self, given):
        """Micro batches a step; stated, or global batch over what one pass of all GPUs takes."""
        if self.micro_batch is None and self.global_batch and self.gpus and not self.model_parallel():
            self.micro_batch = self.global_batch // (self.gpus * (given or 1))  # local batch
        if given or not (self.global_batch and self.gpus and self.micro_batch):
            return given
        if self.model_parallel():
            return None
        return max(1, self.global_batch // (self.gpus * self.micro_batch))

    def model_parallel(self):
        return any(self.degrees.get(kind, 1) > 1 for kind in ("tp", "pp", "cp", "sp"))

    @staticmethod
    def memory(get):
        """GiB. Peaks above what was there before the step are no peaks of a plan."""
        if get("peak_mem_gib"):
            return number(get("peak_mem_gib"))
        kind, value = get("mem_kind"), number(get("peak_mem"))
        if value is None or "delta" in kind or "->" in get("peak_mem"):
            return None
        unit = {"GB": 1e9, "MB": 1e6, "bytes": 1.0}
        scale = next((unit[word] for word in unit if word in kind), None)
        return None if scale is None else value * scale / 2**30


def read_all(directory):
    """(rows of measurements, rows of models.csv)."""
    rows, models = [], []
    for path in sorted(directory.glob("*.csv")):
        table = read_table(path)
        if path.name == "models.csv":
            models = table
        elif path.name not in TABLES:
            rows += [Measured(path.name, raw) for raw in table]
    return rows, models
