// cuBLASLt as a library of products. Opened at run time and not linked: it is half a gigabyte, and the
// program must start on machines that do not have it, or no CUDA library at all.
#include "harness/cuda/products.h"

#if SPILLWAY_HAVE_CUDA && __has_include(<cublasLt.h>)

#include <map>

#include <cublasLt.h>

#include "harness/cuda/ops/all.h"
#include "harness/cuda/shared_library.h"
#include "harness/error.h"

namespace spillway {
namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(Algorithm));

// Its functions, by their own types.
struct LtCalls {
  explicit LtCalls(const SharedLibrary& library) : from(library) {}

#define SPILLWAY_LT(name) decltype(&::name) name = from.find<decltype(&::name)>(#name)
  const SharedLibrary& from;
  SPILLWAY_LT(cublasLtCreate);
  SPILLWAY_LT(cublasLtDestroy);
  SPILLWAY_LT(cublasLtGetVersion);
  SPILLWAY_LT(cublasLtGetStatusName);
  SPILLWAY_LT(cublasLtMatmul);
  SPILLWAY_LT(cublasLtMatmulDescCreate);
  SPILLWAY_LT(cublasLtMatmulDescDestroy);
  SPILLWAY_LT(cublasLtMatmulDescSetAttribute);
  SPILLWAY_LT(cublasLtMatrixLayoutCreate);
  SPILLWAY_LT(cublasLtMatrixLayoutDestroy);
  SPILLWAY_LT(cublasLtMatrixLayoutSetAttribute);
  SPILLWAY_LT(cublasLtMatmulPreferenceCreate);
  SPILLWAY_LT(cublasLtMatmulPreferenceDestroy);
  SPILLWAY_LT(cublasLtMatmulPreferenceSetAttribute);
  SPILLWAY_LT(cublasLtMatmulAlgoGetHeuristic);
  SPILLWAY_LT(cublasLtMatmulAlgoCheck);
  SPILLWAY_LT(cublasLtMatmulAlgoConfigGetAttribute);
#undef SPILLWAY_LT

  void check(cublasStatus_t status, const char* what, const std::string& where) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw RunError(text(what, ", ", where, ": ", cublasLtGetStatusName(status)));
  }
};

template <class Handle>
using LtObject = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;
using LtHandle = LtObject<cublasLtHandle_t>;
using LtDescriptor = LtObject<cublasLtMatmulDesc_t>;
using LtLayout = LtObject<cublasLtMatrixLayout_t>;
using LtPreference = LtObject<cublasLtMatmulPreference_t>;

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::e4m3:
      return CUDA_R_8F_E4M3;
    case DType::e5m2:
      return CUDA_R_8F_E5M2;
    case DType::nvfp4:
      return CUDA_R_4F_E2M1;
    default:
      return CUDA_R_16BF;
  }
}

// fp32 times fp32 gives fp32; bf16 times bf16, FP8 times FP8 (not both E5M2) and NVFP4 times NVFP4
// give bf16 or fp32.
bool known_types(const ProductShape& shape) {
  const DType a = shape.a.dtype, b = shape.b.dtype, c = shape.c.dtype;
  if (is_fp8(a)) return is_fp8(b) && (a == DType::e4m3 || b == DType::e4m3);
  if (a == DType::f32) return b == a && c == a;
  return (a == DType::bf16 || a == DType::nvfp4) && b == a;
}
bool has_block_scales(const ProductShape& shape) { return shape.a.dtype == DType::nvfp4; }

// NVFP4's product is multiplied by what lies in device memory: a b's scales and, of what was there,
// 0. At the beginning of the workspace.
struct DeviceFactors {
  float alpha, beta;
};
constexpr int64_t factor_bytes = 256;

// A row-major matrix is a column-major one transposed, so c^T = b^T a^T is asked for: what cuBLASLt
// calls A is our b, its B our a.
struct LtProduct {
  LtDescriptor descriptor;
  LtLayout first, second, result;
};

class CublasLt : public ProductLibrary {
 public:
  CublasLt(SharedLibrary library, MultiplyScales multiply_scales)
      : library_(std::move(library)),
        calls_(library_),
        handle_(nullptr, calls_.cublasLtDestroy),
        multiply_scales_(multiply_scales) {
    cublasLtHandle_t handle = nullptr;
    calls_.check(calls_.cublasLtCreate(&handle), "cublasLtCreate", "opening cuBLASLt");
    handle_.reset(handle);
  }

  std::string name() const override {
    const size_t version = calls_.cublasLtGetVersion();  // 130100 for 13.1.0
    return text("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
  }

  std::vector<Algorithm> candidates(const ProductShape& shape, int64_t workspace_bytes) override;
  bool usable(const ProductShape& shape, const Algorithm& algorithm,
              int64_t workspace_bytes) override;
  void run(const DenseProduct& product, const Algorithm& algorithm, std::span<std::byte> workspace,
           CUstream_st* stream) override;

 private:
  LtProduct& described(const ProductShape& shape);
  LtLayout layout_of(const ProductMatrix& matrix, int64_t rows, int64_t columns, int64_t batch);
  template <class Value>
  void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t which,
           const Value& value) const {
    const cublasStatus_t status =
        calls_.cublasLtMatmulDescSetAttribute(descriptor, which, &value, sizeof value);
    if (status != CUBLAS_STATUS_SUCCESS)
      calls_.check(status, "cublasLtMatmulDescSetAttribute",
                   text("attribute ", static_cast<int>(which)));
  }
  LtPreference preference(const ProductShape& shape, int64_t workspace_bytes);
  bool deterministic(const cublasLtMatmulAlgo_t& algorithm) const;

  SharedLibrary library_;
  LtCalls calls_;
  LtHandle handle_;
  MultiplyScales multiply_scales_;
  std::map<ProductShape, LtProduct> described_;
};

cublasLtMatmulAlgo_t lt_algorithm(const Algorithm& algorithm) {
  cublasLtMatmulAlgo_t result;
  std::copy(algorithm.words.begin(), algorithm.words.end(), result.data);
  return result;
}

// rows x columns in memory, row-major.
LtLayout CublasLt::layout_of(const ProductMatrix& matrix, int64_t rows, int64_t columns,
                             int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  calls_.check(calls_.cublasLtMatrixLayoutCreate(&made, type_of(matrix.dtype),
                                                 static_cast<uint64_t>(columns),
                                                 static_cast<uint64_t>(rows), matrix.stride),
               "cublasLtMatrixLayoutCreate", text(rows, "x", columns));
  LtLayout layout(made, calls_.cublasLtMatrixLayoutDestroy);
  if (batch == 1) return layout;
  const auto count = static_cast<int32_t>(batch);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t which, const void* value, size_t size) {
    calls_.check(calls_.cublasLtMatrixLayoutSetAttribute(made, which, value, size),
                 "cublasLtMatrixLayoutSetAttribute", text("attribute ", static_cast<int>(which)));
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.step, sizeof matrix.step);
  return layout;
}

LtProduct& CublasLt::described(const ProductShape& shape) {
  const auto found = described_.find(shape);
  if (found != described_.end()) return found->second;
  cublasLtMatmulDesc_t made = nullptr;
  // No TF32 for fp32: the meaning of an op is its sum in fp32.
  calls_.check(calls_.cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescCreate", key_of(shape));
  LtDescriptor descriptor(made, calls_.cublasLtMatmulDescDestroy);
  const auto transpose = [](const ProductMatrix& matrix) {
    return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, transpose(shape.b));
  set(made, CUBLASLT_MATMUL_DESC_TRANSB, transpose(shape.a));
  if (has_block_scales(shape)) {
    set(made, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3);
    set(made, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3);
    set(made, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
  }
  const auto lies = [&](const ProductMatrix& matrix, int64_t rows, int64_t columns) {
    return matrix.transposed ? layout_of(matrix, columns, rows, shape.batch)
                             : layout_of(matrix, rows, columns, shape.batch);
  };
  LtProduct product{std::move(descriptor), lies(shape.b, shape.k, shape.n),
                    lies(shape.a, shape.m, shape.k), lies(shape.c, shape.m, shape.n)};
  return described_.emplace(shape, std::move(product)).first->second;
}

// Parts of a sum along k may be added up in the workspace in fp32, in a step of its own and a fixed
// order; not in the output, where they would be rounded on the way.
LtPreference CublasLt::preference(const ProductShape& shape, int64_t workspace_bytes) {
  cublasLtMatmulPreference_t made = nullptr;
  calls_.check(calls_.cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate",
               key_of(shape));
  LtPreference preference(made, calls_.cublasLtMatmulPreferenceDestroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    calls_.check(calls_.cublasLtMatmulPreferenceSetAttribute(made, which, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute", key_of(shape));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes));
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto& [which, matrix] :
       {std::pair{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &shape.b},
        std::pair{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &shape.a},
        std::pair{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &shape.c},
        std::pair{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &shape.c}})
    set(which, static_cast<uint32_t>(matrix->alignment));
  return preference;
}

bool CublasLt::deterministic(const cublasLtMatmulAlgo_t& algorithm) const {
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
  size_t written = 0;
  const cublasStatus_t status = calls_.cublasLtMatmulAlgoConfigGetAttribute(
      &algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &written);
  return status == CUBLAS_STATUS_SUCCESS && (scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
                                             scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
}

// Of the workspace, to the library.
int64_t left_of(const ProductShape& shape, int64_t workspace_bytes) {
  return has_block_scales(shape) ? std::max<int64_t>(0, workspace_bytes - factor_bytes)
                                 : workspace_bytes;
}

std::vector<Algorithm> CublasLt::candidates(const ProductShape& shape, int64_t workspace_bytes) {
  constexpr int most = 8;
  if (!known_types(shape)) return {};
  const LtProduct& lt = described(shape);
  const LtPreference wanted = preference(shape, left_of(shape, workspace_bytes));
  std::array<cublasLtMatmulHeuristicResult_t, most> results{};
  int count = 0;
  const cublasStatus_t status = calls_.cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), lt.descriptor.get(), lt.first.get(), lt.second.get(), lt.result.get(),
      lt.result.get(), wanted.get(), most, results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  calls_.check(status, "cublasLtMatmulAlgoGetHeuristic", key_of(shape));
  std::vector<Algorithm> algorithms;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS || !deterministic(result.algo)) continue;
    Algorithm& algorithm = algorithms.emplace_back();
    std::copy(std::begin(result.algo.data), std::end(result.algo.data), algorithm.words.begin());
  }
  return algorithms;
}

bool CublasLt::usable(const ProductShape& shape, const Algorithm& algorithm,
                      int64_t workspace_bytes) {
  if (!known_types(shape)) return false;
  const LtProduct& lt = described(shape);
  const cublasLtMatmulAlgo_t words = lt_algorithm(algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = calls_.cublasLtMatmulAlgoCheck(
      handle_.get(), lt.descriptor.get(), lt.first.get(), lt.second.get(), lt.result.get(),
      lt.result.get(), &words, &result);
  return status == CUBLAS_STATUS_SUCCESS && deterministic(words) &&
         result.workspaceSize <= static_cast<size_t>(left_of(shape, workspace_bytes));
}

void CublasLt::run(const DenseProduct& product, const Algorithm& algorithm,
                   std::span<std::byte> workspace, CUstream_st* stream) {
  const LtProduct& lt = described(product.shape);
  const cublasLtMatmulAlgo_t words = lt_algorithm(algorithm);
  const float one = 1, zero = 0;
  const float *alpha = &one, *beta = &zero;
  if (has_block_scales(product.shape)) {
    auto* factors = reinterpret_cast<DeviceFactors*>(workspace.data());
    multiply_scales_(product.a_scale, product.b_scale, &factors->alpha, &factors->beta, stream);
    alpha = &factors->alpha;
    beta = &factors->beta;
    workspace = workspace.subspan(factor_bytes);
    set(lt.descriptor.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product.b_blocks);
    set(lt.descriptor.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product.a_blocks);
  } else if (product.a_scale != nullptr) {
    set(lt.descriptor.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product.b_scale);
    set(lt.descriptor.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product.a_scale);
  }
  const cublasStatus_t status =
      calls_.cublasLtMatmul(handle_.get(), lt.descriptor.get(), alpha, product.b, lt.first.get(),
                            product.a, lt.second.get(), beta, product.c, lt.result.get(), product.c,
                            lt.result.get(), &words, workspace.data(), workspace.size(), stream);
  if (status != CUBLAS_STATUS_SUCCESS)
    calls_.check(status, "cublasLtMatmul", key_of(product.shape));
}

}  // namespace

OpenedLibrary open_cublaslt(const std::string& name, MultiplyScales multiply) {
  try {
    SharedLibrary library(name);
    return {std::make_unique<CublasLt>(std::move(library), multiply), ""};
  } catch (const RunError& error) {
    return {nullptr, error.what()};
  }
}

OpenedLibrary open_cublaslt() {
  return open_cublaslt(text("libcublasLt.so.", CUBLAS_VER_MAJOR), multiply_scales);
}

}  // namespace spillway

#else

namespace spillway {

OpenedLibrary open_cublaslt(const std::string&, MultiplyScales) { return open_cublaslt(); }
OpenedLibrary open_cublaslt() { return {nullptr, "this build has no cuBLASLt"}; }

}  // namespace spillway

#endif
