// The shipped machine files: complete for what runs on them, sourced, and true to what is published.

#include "sweeps/machines.h"

#include <gmock/gmock.h>

#include "harness/error.h"
#include "sweeps/run.h"

namespace spillway {
namespace {

bool has(const Machine& machine, const std::string& key) { return machine.figures.contains(key); }

// Those that stand for a GPU system; the others order ops for this CPU.
std::vector<Machine> gpu_machines() {
  std::vector<Machine> found;
  for (const std::string& name : machine_names())
    if (Machine machine = load_machine(name); has(machine, "nvlink_bandwidth"))
      found.push_back(std::move(machine));
  return found;
}

Point simulated(const Machine& machine, const std::string& model, Precision precision) {
  Point point;
  point.executor = ExecutorKind::sim;
  point.machine = machine.name;
  point.model = model;
  point.precision = precision;
  point.micro_batch = 1;
  point.seq = 64;
  point.policy = "minimal_offloaded";
  point.rotation_copies = point.pipeline = true;
  return point;
}

// Within one domain, and over two of them.
std::vector<int64_t> device_counts(const Machine& machine) {
  const auto domain = static_cast<int64_t>(machine.figure("gpus_per_domain"));
  return {1, domain, 2 * domain};
}

TEST(Machines, HaveEveryFigureThatASimulationAsksFor) {
  ASSERT_GE(gpu_machines().size(), 8U);
  for (const Machine& machine : gpu_machines())
    for (const Precision precision :
         {Precision::fp32, Precision::bf16, Precision::fp8, Precision::nvfp4}) {
      if (!has(machine, std::string("matmul_peak_") + name_of(precision))) continue;
      for (const std::string model : {"llama-tiny", "mixtral-tiny"})
        for (const int64_t devices : device_counts(machine)) {
          Point point = simulated(machine, model, precision);
          point.devices = devices;
          point.moe.expert_parallel = model == "mixtral-tiny" ? std::min<int64_t>(devices, 2) : 1;
          const nlohmann::json result = run_point(point, {});
          EXPECT_EQ(result["status"], "ok") << machine.name << " " << model << " " << devices;
        }
    }
}

TEST(Machines, HaveEveryFigureThatCapacityAsksFor) {
  for (const Machine& machine : gpu_machines())
    for (const char* key :
         {"hbm_bytes", "hbm_usable", "host_bytes", "host_devices", "host_bandwidth", "link_h2d",
          "link_d2h", "link_h2d_all", "link_d2h_all"})
      EXPECT_NO_THROW(machine.figure(key)) << machine.name;
}

TEST(Machines, OfOnePrecisionHaveAllItsFiguresOrNone) {
  for (const Machine& machine : gpu_machines())
    for (const std::string precision : {"fp32", "bf16", "fp8", "nvfp4"}) {
      const bool peak = has(machine, "matmul_peak_" + precision);
      EXPECT_EQ(has(machine, "matmul_ratio_" + precision), peak) << machine.name << precision;
      const bool narrow = precision == "fp8" || precision == "nvfp4";
      EXPECT_EQ(has(machine, "quantisation_bytes_" + precision), peak && narrow)
          << machine.name << precision;
    }
}

// Names of files, their machines, and a date beside every address of the new files.
TEST(Machines, SayWhereAndWhenAFigureIsFrom) {
  for (const std::string& name : machine_names()) {
    const Machine machine = load_machine(name);
    EXPECT_EQ(machine.name, name);
    for (const auto& [key, figure] : machine.figures) {
      EXPECT_FALSE(figure.source.empty()) << name << " " << key;
      const bool cites = figure.source.find("https://") != std::string::npos ||
                         figure.source.find("MLPerf") != std::string::npos;
      EXPECT_TRUE(!cites || !figure.date.empty()) << name << " " << key;
      EXPECT_TRUE(cites || figure.assumed || key == "matmul_ratio_bf16" ||
                  key == "copy_hbm_bytes" || key.starts_with("hbm_bytes"))
          << name << " " << key << ": neither an address nor marked as assumed";
    }
  }
}

struct PublishedFigure {
  const char *machine, *key;
  double value;
};

// Typed in from the tables of the sources a second time: nvbandwidth runs, NVIDIA's peak table,
// MLPerf system files.
TEST(Machines, HoldThePublishedFigures) {
  constexpr double mib = 1024.0 * 1024;
  const PublishedFigure table[] = {
      {"h100-sxm", "matmul_peak_bf16", 989e12},
      {"h100-sxm", "link_h2d", 51e9},
      {"h100-sxm", "link_d2h", 52e9},
      {"h200-sxm", "link_h2d", 52e9},
      {"h200-sxm", "link_d2h", 52e9},
      {"h200-sxm", "hbm_bytes", 143771 * mib},
      {"b200", "matmul_peak_nvfp4", 9000e12},
      {"b200", "hbm_bytes", 183359 * mib},
      {"gb300-nvl72", "matmul_peak_nvfp4", 14700e12},
      {"gb300-nvl72", "link_h2d", 211.5e9},
      {"gb300-nvl72", "link_d2h", 193.5e9},
      {"gb300-nvl72", "hbm_bytes", 284208 * mib},
      {"gh200", "link_h2d", 416e9},
      {"gh200", "link_d2h", 170e9},
      {"vera-rubin-nvl144", "hbm_bandwidth", 22e12},
      {"h100-96gb-hbm2e", "hbm_bandwidth", 2.4e12},
  };
  for (const PublishedFigure& row : table)
    EXPECT_EQ(load_machine(row.machine).figure(row.key), row.value) << row.machine << row.key;
}

// A half of what a link is sold as, both ways together: NVLink-C2C of a superchip is shared by its
// two GPUs (900 GB/s, 1.8 TB/s of Vera), a GH200 has one of its own, PCIe 5 x16 carries 63 GB/s.
TEST(Machines, NoLinkExceedsItsNominalRate) {
  const std::map<std::string, double> nominal = {
      {"gb200-nvl72", 225e9}, {"gb300-nvl72", 225e9}, {"vera-rubin-nvl144", 450e9},
      {"gh200", 450e9},       {"h100-sxm", 63e9},     {"h100-96gb-hbm2e", 63e9},
      {"h200-sxm", 63e9},     {"b200", 63e9},         {"a100-80gb", 31.5e9}};
  for (const Machine& machine : gpu_machines())
    for (const char* key : {"link_h2d", "link_d2h", "link_h2d_all", "link_d2h_all"})
      EXPECT_LT(machine.figure(key), nominal.at(machine.name)) << machine.name << key;
}

// What doubles from GB200 to Vera Rubin is the way to the host and the fabric, not bf16.
TEST(Machines, VeraRubinDoublesTheLinkAndTheFabric) {
  const Machine rubin = load_machine("vera-rubin-nvl144"), grace = load_machine("gb200-nvl72");
  for (const char* key :
       {"link_h2d", "link_d2h", "link_h2d_all", "link_d2h_all", "nvlink_bandwidth"})
    EXPECT_DOUBLE_EQ(rubin.figure(key), 2 * grace.figure(key)) << key;
  EXPECT_EQ(rubin.figure("nic_bandwidth"), 4 * grace.figure("nic_bandwidth"));
  EXPECT_LT(rubin.figure("matmul_peak_bf16"), 1.7 * grace.figure("matmul_peak_bf16"));
  EXPECT_GT(rubin.figure("matmul_peak_fp8"), 3.5 * grace.figure("matmul_peak_fp8"));
}

}  // namespace
}  // namespace spillway
