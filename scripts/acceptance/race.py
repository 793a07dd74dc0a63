"""Every wait is needed and checked; the check agrees with brute force; damaged schedules show."""
from common import QKV_ON_DEVICE, check_tests, run_json

# Tests by what they prove: line, program, filter.
PROOFS = [
    ("no schedule has a race or a wait that others imply, any one wait less is refused",
     "sweeps_tests", "RaceVariants.AnySingleWaitLessIsRefused"),
    ("the same on programs built by hand", "harness_tests",
     "Race.IntactSchedulesHaveNone:Race.EveryWaitThatIsLeftIsNeeded:Race.DropsWaits*"),
    ("agrees with brute force, 1,000 mutations over 5 unrolled layers", "harness_tests",
     "Race.AgreesWithBruteForce*"),
    ("agrees with brute force on real variants", "sweeps_tests", "RaceVariants.BruteForceAgrees"),
    ("deep stacks are proven from a few iterations", "sweeps_tests", "RaceVariants.DeepStacks*"),
    ("each kind of dropped wait shows under slow copies and poison", "harness_tests",
     "CpuExecutorWithoutWait.*"),
    ("8 in 10 dropped waits of real variants change loss, digest or a stamp", "sweeps_tests",
     "*DroppedWait*"),
    ("slow copies and poison change nothing on an intact schedule", "harness_tests",
     "ThreadsCpuExecutor.SlowCopiesAndPoison*"),
]

VARIANTS = [["--policy", "full"], ["--policy", QKV_ON_DEVICE],
            ["--policy", "qkv_proj_offloaded", "--lhs", "off"], ["--policy", "qkv_proj_offloaded"],
            ["--policy", "qkv_proj_offloaded", "--pipeline", "on"],
            ["--policy", "minimal_offloaded", "--pipeline", "on", "--rotation-copies", "on"],
            ["--policy", "decoder_layer_input=offload,context=offload", "--pipeline", "on"]]


def run(lines, quick):
    for what, binary, pattern in PROOFS:
        check_tests(lines, what, binary, pattern)
    tiny = ["--model", "llama-tiny", "--micro-batch", "1", "--seq", "37", "--steps", "3", "--warmup", "0"]
    for variant in VARIANTS:
        plain = run_json(*tiny, *variant)
        stressed = run_json(*tiny, *variant, "--slow-copy", "20", "--poison")
        same = all(plain[key] == stressed[key] for key in ("loss", "gradient_digest"))
        lines.check(f"intact under --slow-copy 20 --poison: {' '.join(variant)}",
                    f"{plain['gradient_digest']} {stressed['gradient_digest']}", same)
