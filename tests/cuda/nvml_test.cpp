// Readings of a management library that stands in for the driver's.
#include "harness/cuda/nvml.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using testing::ElementsAre;

TEST(Nvml, ReadsWhatTheLibraryHas) {
  const Nvml nvml("0000:65:00.0", FAKE_NVML);
  ASSERT_TRUE(nvml.found());
  EXPECT_EQ(nvml.driver_version(), "580.65.06");
  const DeviceClocks clocks = nvml.clocks();
  EXPECT_EQ(clocks.compute_hertz, 1.755e9);
  EXPECT_EQ(clocks.memory_hertz, 2.619e9);
  EXPECT_EQ(clocks.watts, 698.5);
  EXPECT_TRUE(std::isnan(clocks.celsius));
  EXPECT_THAT(clocks.throttled, ElementsAre("power cap", "hardware thermal"));
}

TEST(Nvml, IsBlankWithoutTheLibraryOrTheDevice) {
  const Nvml no_library("0000:65:00.0", "libno-such-library.so");
  const Nvml other_device("0000:01:00.0", FAKE_NVML);
  for (const Nvml* nvml : {&no_library, &other_device}) {
    EXPECT_FALSE(nvml->found());
    EXPECT_EQ(nvml->driver_version(), "");
    EXPECT_TRUE(std::isnan(nvml->clocks().compute_hertz));
    EXPECT_TRUE(nvml->clocks().throttled.empty());
  }
}

}  // namespace
}  // namespace spillway
