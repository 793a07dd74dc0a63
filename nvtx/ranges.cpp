// NVTX ranges through the C interface; the library behind it is header-only and loads a tool at the
// first call.
#include "nvtx/ranges.h"

#if SPILLWAY_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace spillway {

const char* name_of(RangeCategory category) {
  switch (category) {
    case RangeCategory::step:
      return "step";
    case RangeCategory::segment:
      return "segment";
    case RangeCategory::op:
      return "op";
    case RangeCategory::copy:
      return "copy";
  }
  return "?";
}

std::string range_name(RangeCategory category, std::string_view segment, std::string_view op) {
  switch (category) {
    case RangeCategory::step:
      return "step";
    case RangeCategory::segment:
      return std::string(segment);
    case RangeCategory::op:
      return std::string(segment) + "/" + std::string(op);
    case RangeCategory::copy:
      return "copy " + std::string(segment) + "/" + std::string(op);
  }
  return "?";
}

#if SPILLWAY_HAVE_NVTX

namespace {

nvtxDomainHandle_t create_domain() {
  const nvtxDomainHandle_t created = nvtxDomainCreateA("spillway");
  for (const RangeCategory category :
       {RangeCategory::step, RangeCategory::segment, RangeCategory::op, RangeCategory::copy}) {
    nvtxDomainNameCategoryA(created, static_cast<uint32_t>(category), name_of(category));
  }
  return created;
}

// Null while no tool is attached: every call below then returns at once.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t created = create_domain();
  return created;
}

}  // namespace

RegisteredRange register_range(RangeCategory category, const std::string& name) {
  return {category, nvtxDomainRegisterStringA(domain(), name.c_str())};
}

NvtxRange::NvtxRange(RegisteredRange range, int64_t payload) {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = static_cast<uint32_t>(range.category);
  event.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  event.payload.llValue = payload;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = static_cast<nvtxStringHandle_t>(range.handle);
  nvtxDomainRangePushEx(domain(), &event);
}

NvtxRange::~NvtxRange() { nvtxDomainRangePop(domain()); }

#endif

}  // namespace spillway
