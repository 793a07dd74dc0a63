"""What of the CUDA executor runs without a device: kernels' bodies, whole models on a stand-in, formats, limits."""
from common import ROOT, check_tests

# What is promised, the program, the filter.
PROMISES = [
    ("every kernel's body computes what its op means, and every op has a case", "cuda_tests", "*CudaBodies*:CudaKernels.*"),
    ("whole models on a stand-in: the CPU's bits under every schedule, any wait less shows", "cuda_tests", "CudaModels.*"),
    ("streams, events, graphs, failing calls", "cuda_tests", "*StreamExecutor*:Issue*"),
    ("what a GPU cannot do is refused by name", "cuda_tests", "CudaRefusals.*"),
    ("products by cuBLASLt: one algorithm a product, kept in a file", "cuda_tests", "*Product*:Algorithm*"),
    ("scripts/gpu_check.sh and its parts", "cuda_tests", "GpuCheck*"),
    ("a whole step projected from a few layers", "sweeps_tests", "Projection.*"),
]


def run(lines, quick):
    for what, binary, pattern in PROMISES:
        check_tests(lines, what, binary, pattern)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines.check("README says plainly what was not run on a GPU", "None of this has run on a GPU yet",
                "None of this has run on a GPU yet" in " ".join(text.split()))
