// A cuBLASLt that multiplies on the CPU, at once, by the definition in cuBLAS's documentation:
// column-major D = alpha op(A) op(B) + beta C. products_test.cpp opens it in place of the real one.
// Compiled with cublasLt.h from the command line: CUDA's headers are named under harness/cuda/ alone.
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

namespace {

// By the definition of the OCP formats: sign, exponent, mantissa.
float small(int code, int exponent_bits, int mantissa_bits, int bias) {
  const int mantissa = code & ((1 << mantissa_bits) - 1),
            exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const float fraction = std::ldexp(static_cast<float>(mantissa), -mantissa_bits);
  const float size =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (code >> (mantissa_bits + exponent_bits)) != 0 ? -size : size;
}

struct Attributes {
  std::map<int, std::vector<unsigned char>> set;

  template <class T>
  T get(int which, T otherwise) const {
    const auto found = set.find(which);
    if (found == set.end()) return otherwise;
    T value{};
    if (found->second.size() == sizeof value)
      std::memcpy(&value, found->second.data(), sizeof value);
    return value;
  }
  cublasStatus_t put(int which, const void* value, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(value);
    set[which].assign(bytes, bytes + size);
    return CUBLAS_STATUS_SUCCESS;
  }
};
struct Layout : Attributes {
  cudaDataType type = CUDA_R_32F;
  int64_t rows = 0, columns = 0, stride = 0;

  int64_t index(int64_t row, int64_t column, int64_t batch) const {
    const auto step = get<int64_t>(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0);
    return batch * step + column * stride + row;
  }
  float load(const void* data, int64_t row, int64_t column, int64_t batch) const {
    const int64_t i = index(row, column, batch);
    const auto* bytes = static_cast<const unsigned char*>(data);
    if (type == CUDA_R_8F_E4M3) return small(bytes[i], 4, 3, 7);
    if (type == CUDA_R_8F_E5M2) return small(bytes[i], 5, 2, 15);
    if (type == CUDA_R_4F_E2M1)
      return small(i % 2 == 0 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4, 2, 1, 1);
    if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
    const unsigned bits = unsigned{static_cast<const unsigned short*>(data)[i]} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  // The scale of the 16 values along rows that this one belongs to: tiles of 128 x 4 scales, of
  // outer index o and inner i at (o % 32) * 16 + (o / 32) * 4 + i (cuBLAS, "1D block scaling").
  float block_scale(const unsigned char* scales, int64_t along, int64_t outer) const {
    const int64_t blocks = (rows + 15) / 16, tiles_along = (blocks + 3) / 4, i = along / 16;
    const int64_t tile = outer / 128 * tiles_along + i / 4, o = outer % 128;
    return small(scales[tile * 512 + o % 32 * 16 + o / 32 * 4 + i % 4], 4, 3, 7);
  }
  void store(void* data, int64_t row, int64_t column, int64_t batch, float value) const {
    const int64_t i = index(row, column, batch);
    if (type == CUDA_R_32F) {
      static_cast<float*>(data)[i] = value;
      return;
    }
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits += 0x7fffu + ((bits >> 16) & 1u);
    static_cast<unsigned short*>(data)[i] = static_cast<unsigned short>(bits >> 16);
  }
};
struct Descriptor : Attributes {
  bool transposed(cublasLtMatmulDescAttributes_t which) const {
    return get<cublasOperation_t>(which, CUBLAS_OP_N) == CUBLAS_OP_T;
  }
};

template <class Own, class Theirs>
Own* own(Theirs* handle) {
  return reinterpret_cast<Own*>(handle);
}

// words[0] a number, words[1] the reduction scheme, words[2] bytes of workspace it needs.
cublasLtMatmulHeuristicResult_t result(uint64_t number, uint64_t scheme, uint64_t bytes) {
  cublasLtMatmulHeuristicResult_t made{};
  made.algo.data[0] = number;
  made.algo.data[1] = scheme;
  made.algo.data[2] = bytes;
  made.workspaceSize = bytes;
  made.state = CUBLAS_STATUS_SUCCESS;
  return made;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int the_handle;
  *handle = reinterpret_cast<cublasLtHandle_t>(&the_handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
size_t cublasLtGetVersion() { return 130203; }
const char* cublasLtGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS_OF_THE_FAKE"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  *made = own<cublasLtMatmulDescOpaque_t>(new Descriptor);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  delete own<Descriptor>(descriptor);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t size) {
  return own<Descriptor>(descriptor)->put(which, value, size);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  auto* layout = new Layout;
  layout->type = type;
  layout->rows = static_cast<int64_t>(rows);
  layout->columns = static_cast<int64_t>(columns);
  layout->stride = stride;
  *made = own<cublasLtMatrixLayoutOpaque_t>(layout);
  return stride < layout->rows ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete own<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, size_t size) {
  return own<Layout>(layout)->put(which, value, size);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = own<cublasLtMatmulPreferenceOpaque_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete own<Attributes>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, size_t size) {
  return own<Attributes>(preference)->put(which, value, size);
}

// Four: two that may be used, one that adds up in the output, one that cannot run.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t wanted, int most,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  const auto* preference = own<Attributes>(wanted);
  const auto bytes = preference->get<uint64_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0);
  if (preference->get<uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 7) != 2 || most < 4)
    return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = result(11, CUBLASLT_REDUCTION_SCHEME_INPLACE, 0);
  results[1] = result(12, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, bytes);
  results[2] = result(13, CUBLASLT_REDUCTION_SCHEME_NONE, 0);
  results[3] = result(14, CUBLASLT_REDUCTION_SCHEME_NONE, 0);
  results[3].state = CUBLAS_STATUS_NOT_SUPPORTED;
  *count = 4;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* checked) {
  *checked = result(algorithm->data[0], algorithm->data[1], algorithm->data[2]);
  const bool known = algorithm->data[0] >= 11 && algorithm->data[0] <= 13;
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t which,
                                                    void* value, size_t size, size_t* written) {
  if (which != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || size != sizeof(uint32_t))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto scheme = static_cast<uint32_t>(algorithm->data[1]);
  std::memcpy(value, &scheme, sizeof scheme);
  *written = sizeof scheme;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void*,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t bytes,
                              cudaStream_t) {
  const auto* how = own<Descriptor>(descriptor);
  const auto *first = own<Layout>(a_layout), *second = own<Layout>(b_layout),
             *result = own<Layout>(d_layout);
  const bool turn_a = how->transposed(CUBLASLT_MATMUL_DESC_TRANSA),
             turn_b = how->transposed(CUBLASLT_MATMUL_DESC_TRANSB);
  const int64_t sum_over = turn_a ? first->rows : first->columns;
  const bool fits = (turn_a ? first->columns : first->rows) == result->rows &&
                    (turn_b ? second->rows : second->columns) == result->columns &&
                    (turn_b ? second->columns : second->rows) == sum_over;
  const float one = *static_cast<const float*>(alpha), none = *static_cast<const float*>(beta);
  using Bytes = const unsigned char*;
  const auto* a_blocks = how->get<Bytes>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, nullptr);
  const auto* b_blocks = how->get<Bytes>(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, nullptr);
  const bool blocks =
      how->get(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) ==
      CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
  const bool device = how->get(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST) ==
                      CUBLASLT_POINTER_MODE_DEVICE;
  const bool four_bits = first->type == CUDA_R_4F_E2M1;
  if (!fits || none != 0 || algorithm->data[2] > bytes || blocks != four_bits ||
      device != four_bits || (!device && one != 1) || (four_bits && (!turn_a || turn_b)))
    return CUBLAS_STATUS_INVALID_VALUE;
  float tensor_scales = 1;
  for (const Bytes scale : {a_blocks, b_blocks})
    if (!blocks && scale != nullptr) tensor_scales *= *reinterpret_cast<const float*>(scale);
  const auto batch = result->get<int32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
  for (int64_t s = 0; s < batch; ++s)
    for (int64_t i = 0; i < result->rows; ++i)
      for (int64_t j = 0; j < result->columns; ++j) {
        float sum = 0;
        for (int64_t p = 0; p < sum_over; ++p) {
          float term = (turn_a ? first->load(a, p, i, s) : first->load(a, i, p, s)) *
                       (turn_b ? second->load(b, j, p, s) : second->load(b, p, j, s));
          if (blocks)
            term *= first->block_scale(a_blocks, p, i) * second->block_scale(b_blocks, p, j);
          sum += term;
        }
        result->store(d, i, j, s, sum * one * tensor_scales);
      }
  return CUBLAS_STATUS_SUCCESS;
}
}
