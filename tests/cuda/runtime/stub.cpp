// SPDX-License-Identifier: MIT
#include "stub.hpp"

#include <cublas_v2.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "headmix/core/scalar.hpp"

// NOLINTBEGIN: the names and the types of these functions are NVIDIA's.

namespace {

/// Dynamic shared memory of a kernel without a request.
constexpr std::size_t shared_without_asking = 48 << 10;

struct tables {
  std::map<void const*, std::string> kernels;
  std::map<void const*, std::size_t> shared;  // that a kernel was allowed
  std::set<cudaStream_t> streams;
  std::set<cudaStream_t> recording;
  struct {
    dim3 grid, block;
    std::size_t shared;
    cudaStream_t stream;
  } configuration;
  cudaError_t last = cudaSuccess;
};
tables& all() {
  static tables t;
  return t;
}
/// Whether the calling function is to fail.
bool fails() {
  stub::runtime& r = stub::state();
  ++r.calls;
  if (r.failure_after < 0) return false;
  return r.failure_after-- == 0;
}
cudaError_t result(cudaError_t e) {
  if (e != cudaSuccess) all().last = e;
  return e;
}
bool is_alive(cudaStream_t s) { return s == nullptr || all().streams.count(s) > 0; }
cudaError_t launch(void const* kernel, dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
                   bool overlaps = false, unsigned cluster = 1) {
  if (!is_alive(stream)) return result(cudaErrorInvalidResourceHandle);
  auto const allowed = all().shared.find(kernel);
  if (shared > (allowed == all().shared.end() ? shared_without_asking : allowed->second)) {
    return result(cudaErrorInvalidValue);
  }
  if (cluster == 0 || grid.x % cluster != 0) return result(cudaErrorInvalidClusterSize);
  stub::state().launches.push_back({all().kernels[kernel], grid.x, block.x, shared, stream, overlaps, cluster});
  return cudaSuccess;
}

double load(void const* p, cudaDataType type, long long i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<double const*>(p)[i];
    case CUDA_R_32F:
      return static_cast<double>(static_cast<float const*>(p)[i]);
    case CUDA_R_16BF:
      return static_cast<double>(static_cast<headmix::bfloat16 const*>(p)[i]);
    default:
      std::abort();
  }
}
void store(void* p, cudaDataType type, long long i, double value) {
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(p)[i] = value;
      break;
    case CUDA_R_32F:
      static_cast<float*>(p)[i] = static_cast<float>(value);
      break;
    case CUDA_R_16BF:
      static_cast<headmix::bfloat16*>(p)[i] = static_cast<headmix::bfloat16>(value);
      break;
    default:
      std::abort();
  }
}

}  // namespace

namespace stub {
runtime& state() {
  static runtime r;
  return r;
}
}  // namespace stub

extern "C" {

// ---- what nvcc's own code calls ----

void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, char const*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void**, char const* host, char*, char const* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  all().kernels[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  all().configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  auto const& c = all().configuration;
  *grid = c.grid, *block = c.block, *shared = c.shared;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, void const* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**, std::size_t shared,
                               cudaStream_t stream) {
  return launch(kernel, grid, block, shared, stream);
}
cudaError_t cudaLaunchKernel(void const* kernel, dim3 grid, dim3 block, void**, std::size_t shared,
                             cudaStream_t stream) {
  return launch(kernel, grid, block, shared, stream);
}
cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* c, void const* kernel, void**) {
  bool overlaps = false;
  unsigned cluster = 1;
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    overlaps = overlaps || (c->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                            c->attrs[i].val.programmaticStreamSerializationAllowed != 0);
    if (c->attrs[i].id == cudaLaunchAttributeClusterDimension) cluster = c->attrs[i].val.clusterDim.x;
  }
  return launch(kernel, c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream, overlaps, cluster);
}

// ---- the runtime ----

cudaError_t cudaFuncSetAttribute(void const* kernel, cudaFuncAttribute, int value) {
  ++stub::state().attributes;
  if (fails() || value > stub::state().shared_bytes) return result(cudaErrorInvalidValue);
  all().shared[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, void const*) {
  *a = {};
  a->ptxVersion = stub::state().compiled_for;
  return cudaSuccess;
}
cudaError_t cudaFuncGetParamInfo(void const*, std::size_t, std::size_t* offset, std::size_t* bytes) {
  if (stub::state().operand_bytes == 0) return result(cudaErrorInvalidDeviceFunction);
  *offset = 0;
  *bytes = stub::state().operand_bytes;
  return cudaSuccess;
}
char const* cudaGetErrorName(cudaError_t e) { return e == cudaSuccess ? "cudaSuccess" : "cudaErrorOfTheStub"; }
char const* cudaGetErrorString(cudaError_t e) { return e == cudaSuccess ? "no error" : "an error of the stub"; }
cudaError_t cudaGetLastError() {
  cudaError_t const e = all().last;
  all().last = cudaSuccess;
  return e;
}
cudaError_t cudaPeekAtLastError() { return all().last; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return fails() ? result(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = stub::state().device;
  return fails() ? result(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  stub::state().device = device;
  return cudaSuccess;
}
/// The attributes of an H100.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (fails()) return result(cudaErrorInvalidValue);
  *value = attribute == cudaDevAttrMultiProcessorCount            ? 132
           : attribute == cudaDevAttrComputeCapabilityMajor       ? 9
           : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? stub::state().shared_bytes
                                                                  : 0;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void const*, int, std::size_t,
                                                                   unsigned) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  if (fails()) return result(cudaErrorMemoryAllocation);
  *p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  ++stub::state().allocations;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  std::free(p);
  if (p != nullptr) --stub::state().allocations;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* p, int value, std::size_t bytes) {
  if (fails()) return result(cudaErrorInvalidValue);
  std::memset(p, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  ++stub::state().memsets;
  return is_alive(stream) ? cudaMemset(p, value, bytes) : result(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (fails() || !is_alive(stream)) return result(cudaErrorInvalidValue);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (fails()) return result(cudaErrorMemoryAllocation);
  *stream = static_cast<cudaStream_t>(std::malloc(1));
  all().streams.insert(*stream);
  stub::state().stream_flags.push_back(flags);
  ++stub::state().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (all().streams.erase(stream) == 0) return result(cudaErrorInvalidResourceHandle);
  std::free(stream);
  --stub::state().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return fails() || !is_alive(stream) ? result(cudaErrorInvalidResourceHandle) : cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (fails() || !is_alive(stream)) return result(cudaErrorInvalidResourceHandle);
  *status = all().recording.count(stream) > 0 ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (fails() || !is_alive(stream)) return result(cudaErrorInvalidResourceHandle);
  all().recording.insert(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  all().recording.erase(stream);
  if (fails()) return result(cudaErrorInvalidValue);
  *graph = static_cast<cudaGraph_t>(std::malloc(1));
  ++stub::state().graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t, unsigned long long) {
  if (fails()) return result(cudaErrorInvalidValue);
  *executable = static_cast<cudaGraphExec_t>(std::malloc(1));
  ++stub::state().graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t stream) {
  return fails() || !is_alive(stream) ? result(cudaErrorInvalidResourceHandle) : cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  std::free(graph);
  --stub::state().graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  std::free(executable);
  --stub::state().graphs;
  return cudaSuccess;
}

// ---- cuBLAS, whose products are computed: columns follow each other ----

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (fails()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = static_cast<cublasHandle_t>(std::malloc(1));
  ++stub::state().handles;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  std::free(handle);
  --stub::state().handles;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t) {
  return fails() ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, std::size_t) {
  return fails() ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) {
  return fails() ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
char const* cublasGetStatusString(cublasStatus_t) { return "an error of the stub"; }
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t of_a, cublasOperation_t of_b, int m, int n,
                                          int k, void const* alpha, void const* a, cudaDataType type_a, int lda,
                                          long long step_a, void const* b, cudaDataType type_b, int ldb,
                                          long long step_b, void const* beta, void* c, cudaDataType type_c, int ldc,
                                          long long step_c, int count, cublasComputeType_t compute, cublasGemmAlgo_t) {
  ++stub::state().products;
  auto const scale = [&](void const* p) {
    return compute == CUBLAS_COMPUTE_64F ? *static_cast<double const*>(p)
                                         : static_cast<double>(*static_cast<float const*>(p));
  };
  double const one = scale(alpha), keep = scale(beta);
  for (int e = 0; e < count; ++e) {
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int l = 0; l < k; ++l) {
          long long const at_a = e * step_a + (of_a == CUBLAS_OP_N ? i + 1LL * l * lda : l + 1LL * i * lda);
          long long const at_b = e * step_b + (of_b == CUBLAS_OP_N ? l + 1LL * j * ldb : j + 1LL * l * ldb);
          sum += load(a, type_a, at_a) * load(b, type_b, at_b);
        }
        long long const at_c = e * step_c + i + 1LL * j * ldc;
        store(c, type_c, at_c, one * sum + (keep == 0 ? 0 : keep * load(c, type_c, at_c)));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m, int n, int k,
                            void const* alpha, void const* a, cudaDataType type_a, int lda, void const* b,
                            cudaDataType type_b, int ldb, void const* beta, void* c, cudaDataType type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, of_a, of_b, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c,
                                    type_c, ldc, 0, 1, compute, algorithm);
}

}  // extern "C"

// NOLINTEND
