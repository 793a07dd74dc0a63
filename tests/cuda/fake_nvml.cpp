// A management library of one device, to be opened by nvml_test.cpp: fixed readings, no driver.
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  static int the_device;
  *device = &the_device;
  return std::strcmp(address, "0000:65:00.0") == 0 ? 0 : 6;  // NVML_ERROR_NOT_FOUND
}

int nvmlDeviceGetClockInfo(void*, unsigned type, unsigned* megahertz) {
  *megahertz = type == 1 ? 1755 : 2619;  // SM, memory
  return type == 1 || type == 2 ? 0 : 2;
}

int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 698500;
  return 0;
}

int nvmlDeviceGetTemperature(void*, unsigned, unsigned*) { return 3; }  // NVML_ERROR_NOT_SUPPORTED

// The name that libraries had before nvmlDeviceGetCurrentClocksEventReasons.
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) {
  *bits = 0x1 | 0x4 | 0x40;  // idle, power cap, hardware thermal
  return 0;
}

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::strncpy(version, "580.65.06", length);
  return 0;
}
}
