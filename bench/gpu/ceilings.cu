// SPDX-License-Identifier: MIT
// The ceilings of the GPU: copies, reads from the second-level cache, a large product, launches. The last two lines are
// for gpu.sh: --tflops=... and --tbytes=...
#include "common.cuh"

using namespace bench;

/// Every thread sums 16-byte words of a buffer that fits the second-level cache, several times.
struct read_again {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  float const* data;
  Index chunks;
  int times;
  float* sum;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    std::uint32_t bits = 0;
    Index const stride = device.blocks() * threads;
    for (int n = 0; n < times; ++n) {
      // The part of another block each time, which is not in the first-level cache of this multiprocessor.
      Index const first = (device.block() + n * 7) % device.blocks() * threads + device.thread();
      for (Index i = first; i < chunks; i += stride) {
        headmix::words<4> const w = device.load16(data + 4 * i);
        bits ^= w.word[0] ^ w.word[1] ^ w.word[2] ^ w.word[3];
      }
    }
    if (bits == 12345) device.store(sum, 1.0F);
  }
};

struct nothing {
  static constexpr int threads = 32;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  template <class Device>
  HEADMIX_DEVICE void operator()(Device&) const {}
};

std::string decimal(double x, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}
/// A row of the table.
void ceiling(std::string const& name, double us, double tflops = 0) {
  std::printf("{\"group\": \"ceiling\", \"name\": %s, \"us\": %.2f, \"tflops\": %.1f}\n", json_quoted(name).c_str(), us,
              tflops);
}

int main() {
  try {
    Backend backend;
    auto& queue = backend.queue();
    cudaStream_t const stream = queue.stream();

    Index const bytes = Index{1} << 30;
    headmix::cuda_kernels::memory const from(static_cast<std::size_t>(bytes)), to(static_cast<std::size_t>(bytes));
    backend.for_each(bytes / 4, fill<float>{from.as<float>(), 1, 1});  // zeros might be cheaper to move
    double const copy = median_us(
        stream,
        [&](int) {
          headmix::cuda_kernels::check(
              cudaMemcpyAsync(to.bytes().data(), from.bytes().data(), static_cast<std::size_t>(bytes),
                              cudaMemcpyDeviceToDevice, stream),
              "copying");
        },
        20);
    double const tbytes = 2 * static_cast<double>(bytes) / copy * 1e-6;
    ceiling("copy of 1 GiB, read and written: " + decimal(tbytes, 2) + " TB/s", copy);

    Index const small = Index{16} << 20;
    int const times = 20;
    double const read = median_us(stream, [&](int) {
      queue.launch(read_again{from.as<float>(), small / 16, times, to.as<float>()}, 8 * queue.processors());
    });
    double const read_tbytes = static_cast<double>(small) * times / read * 1e-6;
    ceiling("16 MiB read " + std::to_string(times) + " times from the L2 cache: " + decimal(read_tbytes, 2) + " TB/s",
            read);

    Index const n = 8192;
    Buffers<bfloat16> const a(backend, n, n), b(backend, n, n), y(backend, n, n);
    double const product = median_us(
        stream,
        [&](int i) {
          if (!queue.gemm(y(i), view<bfloat16 const>(a(i)), view<bfloat16 const>(b(i)), false)) std::abort();
        },
        30);
    double const gflop = 2e-9 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    double const tflops = gflop / product * 1e3;
    ceiling("cuBLAS, bfloat16, 8192^3, random numbers", product, tflops);

    double const empty = median_us(stream, [&](int) { queue.launch(nothing{}, 1); });
    headmix::cuda_graph const graph(queue, [&] {
      for (int i = 0; i < 100; ++i) queue.launch(nothing{}, 1);
    });
    double const in_graph = median_us(stream, [&](int) { graph.launch(); }) / 100;
    ceiling("empty kernel between two events", empty);
    ceiling("empty kernel in a graph of 100", in_graph);
    std::printf("--tflops=%.1f\n--tbytes=%.3f\n", tflops, tbytes);
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
