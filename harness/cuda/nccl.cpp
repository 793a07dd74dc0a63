// NCCL as a communicator. Opened at run time like cuBLASLt, and only where a program communicates.
#include "harness/cuda/collectives.h"
#include "harness/error.h"

#if SPILLWAY_HAVE_CUDA && __has_include(<nccl.h>)

#include <nccl.h>

#include "harness/cuda/shared_library.h"

namespace spillway {
namespace {

struct NcclCalls {
#define SPILLWAY_NCCL(name) decltype(&::name) name = from.find<decltype(&::name)>(#name)
  const SharedLibrary& from;
  SPILLWAY_NCCL(ncclGetUniqueId);
  SPILLWAY_NCCL(ncclCommInitRank);
  SPILLWAY_NCCL(ncclCommDestroy);
  SPILLWAY_NCCL(ncclCommGetAsyncError);
  SPILLWAY_NCCL(ncclGetErrorString);
  SPILLWAY_NCCL(ncclGroupStart);
  SPILLWAY_NCCL(ncclGroupEnd);
  SPILLWAY_NCCL(ncclAllGather);
  SPILLWAY_NCCL(ncclReduceScatter);
  SPILLWAY_NCCL(ncclBroadcast);
  SPILLWAY_NCCL(ncclReduce);
#undef SPILLWAY_NCCL
};

ncclDataType_t nccl_type(DType dtype) {
  if (dtype == DType::f32) return ncclFloat32;
  return dtype == DType::bf16 ? ncclBfloat16 : ncclInt32;
}
size_t counted(int64_t count) { return static_cast<size_t>(count); }

class Nccl : public Communicator {
 public:
  // Of one process.
  Nccl() : library_(text("libnccl.so.", NCCL_MAJOR)), calls_{library_} {
    ncclUniqueId id;
    accept(calls_.ncclGetUniqueId(&id), "ncclGetUniqueId");
    accept(calls_.ncclCommInitRank(&group_, 1, id, 0), "ncclCommInitRank");
  }
  ~Nccl() override {
    if (group_ != nullptr) calls_.ncclCommDestroy(group_);
  }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  int64_t ranks() const override { return 1; }
  void begin() override { accept(calls_.ncclGroupStart(), "ncclGroupStart"); }
  // What went wrong in transfers before this one shows here too.
  void end() override {
    accept(calls_.ncclGroupEnd(), "ncclGroupEnd");
    ncclResult_t earlier = ncclSuccess;
    accept(calls_.ncclCommGetAsyncError(group_, &earlier), "ncclCommGetAsyncError");
    accept(earlier, "an earlier transfer");
  }
  void all_gather(const std::byte* from, std::byte* to, int64_t count, DType dtype,
                  CUstream_st* stream) override {
    accept(calls_.ncclAllGather(from, to, counted(count), nccl_type(dtype), group_, stream),
           "ncclAllGather");
  }
  void reduce_scatter(const std::byte* from, std::byte* to, int64_t count, DType dtype,
                      CUstream_st* stream) override {
    accept(calls_.ncclReduceScatter(from, to, counted(count), nccl_type(dtype), ncclAvg, group_,
                                    stream),
           "ncclReduceScatter");
  }
  void broadcast(const std::byte* from, std::byte* to, int64_t count, DType dtype, int64_t root,
                 CUstream_st* stream) override {
    accept(calls_.ncclBroadcast(from, to, counted(count), nccl_type(dtype), static_cast<int>(root),
                                group_, stream),
           "ncclBroadcast");
  }
  void reduce(const std::byte* from, std::byte* to, int64_t count, DType dtype, int64_t root,
              CUstream_st* stream) override {
    accept(calls_.ncclReduce(from, to, counted(count), nccl_type(dtype), ncclAvg,
                             static_cast<int>(root), group_, stream),
           "ncclReduce");
  }

 private:
  void accept(ncclResult_t result, const char* what) const {
    if (result != ncclSuccess && result != ncclInProgress)
      throw RunError(text(what, ": ", calls_.ncclGetErrorString(result)));
  }

  SharedLibrary library_;
  NcclCalls calls_;
  ncclComm_t group_ = nullptr;
};

}  // namespace

std::unique_ptr<Communicator> open_nccl(int64_t ranks) {
  if (ranks != 1)
    throw RunError(text("a group of ", ranks, " devices needs as many processes: found one"));
  return std::make_unique<Nccl>();
}

}  // namespace spillway

#else

namespace spillway {

std::unique_ptr<Communicator> open_nccl(int64_t) { throw RunError("this build has no NCCL"); }

}  // namespace spillway

#endif
