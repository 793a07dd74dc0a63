// First everything is timed, then the file is written, then algorithms are taken from it: where two
// processes chose at once, both run what the file has.
#include "harness/cuda/chosen_products.h"

#include "harness/cuda/objects.h"
#include "harness/error.h"

namespace spillway {

ChosenProducts::ChosenProducts(ProductLibrary& library, Gpu& gpu, std::filesystem::path file,
                               std::string machine)
    : library_(library), gpu_(gpu), file_(std::move(file), std::move(machine)) {
  report_.library = library.name();
  report_.file = file_.path().string();
}

// Of one run, on a device that has nothing else to do.
double ChosenProducts::seconds_of(const DenseProduct& product, const Algorithm& algorithm,
                                  std::span<std::byte> workspace, CUstream_st* stream) {
  const GpuEvent begin = make_event(gpu_, EventUse::time), end = make_event(gpu_, EventUse::time);
  gpu_.record_time(begin.get(), stream);
  library_.run(product, algorithm, workspace, stream);
  gpu_.record_time(end.get(), stream);
  gpu_.synchronize(stream);
  return gpu_.seconds_between(begin.get(), end.get());
}

void ChosenProducts::time(const DenseProduct& product, std::span<std::byte> workspace,
                          CUstream_st* stream) {
  const auto bytes = static_cast<int64_t>(workspace.size());
  const std::vector<Algorithm> candidates = library_.candidates(product.shape, bytes);
  const auto seconds = [&](const Algorithm& algorithm) {
    return seconds_of(product, algorithm, workspace, stream);
  };
  for (const Algorithm& algorithm : candidates)
    seconds(algorithm);  // loads its kernel
  const std::optional<Choice> choice = choose(candidates, seconds);
  if (!choice && is_narrow(product.shape.a.dtype))
    throw InputError(text("--matmul: ", library_.name(), " has no algorithm for the product ",
                          key_of(product.shape), " on ", gpu_.device().name,
                          "; expected plain, which computes with its values in bf16"));
  if (!choice) {
    without_.insert(product.shape);
    return;
  }
  file_.add(key_of(product.shape), *choice);
  ++report_.timed;
}

void ChosenProducts::resolve(const ProductCall& call) {
  const auto bytes = static_cast<int64_t>(call.workspace.size());
  for_each_product(call.call, [&](const DenseProduct& product) {
    if (chosen_.contains(product.shape) || without_.contains(product.shape)) return;
    const std::string key = key_of(product.shape);
    const Choice* choice = file_.find(key);
    check(choice != nullptr, "product ", key, " was not prepared");
    if (!library_.usable(product.shape, choice->algorithm, bytes))
      throw InputError(
          text(file_.where(key), ": found an algorithm that ", library_.name(), " cannot run on ",
               gpu_.device().name,
               "; expected one it wrote down here (take the entry out to choose anew)"));
    chosen_[product.shape] = choice->algorithm;
  });
}

void ChosenProducts::prepare(const std::vector<ProductCall>& calls, CUstream_st* stream) {
  for (const ProductCall& call : calls)
    for_each_product(call.call, [&](const DenseProduct& product) {
      if (without_.contains(product.shape) || file_.find(key_of(product.shape)) != nullptr) return;
      time(product, call.workspace, stream);
    });
  file_.save();
  for (const ProductCall& call : calls)
    resolve(call);
  report_.by_library = static_cast<int64_t>(chosen_.size());
  report_.plain.clear();
  for (const ProductShape& shape : without_)
    report_.plain.push_back(key_of(shape));
}

bool ChosenProducts::run(const OpCall& call, std::span<std::byte> workspace,
                         CUstream_st* stream) const {
  if (!is_dense_product(*call.op)) return false;
  bool all = true;
  for_each_product(call, [&](const DenseProduct& p) { all = all && chosen_.contains(p.shape); });
  if (!all) return false;
  for_each_product(call, [&](const DenseProduct& product) {
    library_.run(product, chosen_.at(product.shape), workspace, stream);
  });
  return true;
}

}  // namespace spillway
