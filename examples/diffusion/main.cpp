// SPDX-License-Identifier: MIT
// headmix-diffusion: trains a small diffusion transformer with dense attention or MoH on drawn shapes, and compares its
// samples with drawn ones.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "../command_line.hpp"
#include "../program.hpp"
#include "quality.hpp"
#include "training.hpp"

namespace command_line {
template <>
inline constexpr std::array<std::string_view, 2> names<diffusion::Attention>{"dense", "moh"};
}  // namespace command_line

namespace diffusion {

namespace {

std::vector<Int> labels_in_turn(Index n) {
  std::vector<Int> labels;
  for (Index i = 0; i < n; ++i) labels.push_back(static_cast<Int>(i % classes));
  return labels;
}

/// A picture of all images, a column for each class, as a portable grey map.
void write_pictures(std::string const& path, std::vector<float> const& images) {
  Index const n = static_cast<Index>(images.size()) / pixels, rows = (n + classes - 1) / classes;
  Index const step = side + 2, width = classes * step, height = rows * step;
  std::string picture(static_cast<std::size_t>(width * height), '\x40');
  for (Index i = 0; i < n * pixels; ++i) {
    Index const image = i / pixels, row = i % pixels / side, column = i % side;
    float const grey = std::clamp(127.5f * (images[static_cast<std::size_t>(i)] + 1), 0.f, 255.f);
    picture[static_cast<std::size_t>((image / classes * step + row + 1) * width + image % classes * step + column +
                                     1)] = static_cast<char>(static_cast<unsigned char>(grey));
  }
  std::ofstream file(path, std::ios::binary);
  file << "P5\n" << width << ' ' << height << "\n255\n" << picture << std::flush;
  if (!file) throw command_line::UsageError("--pictures: cannot write " + command_line::in_quotes(path));
}

int run(std::vector<std::string_view> const& arguments) {
  using namespace command_line;
  Options o;
  std::string pictures;
  std::vector<Option> const table = {{"--attention", choice_in(o.attention, "dense|moh")},
                                     {"--blocks", number_in(o.blocks, 1, 1000)},
                                     {"--steps", number_in(o.steps, 1, 100'000'000)},
                                     {"--batch", number_in(o.batch, 1, 100'000)},
                                     {"--lr", number_in(o.lr, 0, 1, "RATE")},
                                     {"--warmup", number_in(o.warmup, 0, 100'000'000)},
                                     {"--average", number_in(o.average, 0, 0.999999, "DECAY")},
                                     {"--balance", number_in(o.balance, 0, 100, "WEIGHT")},
                                     {"--samples", number_in(o.samples, 2, 1'000'000)},
                                     {"--sampling-steps", number_in(o.sampling_steps, 1, 1000)},
                                     {"--guidance", number_in(o.guidance, 0, 100, "SCALE")},
                                     {"--pictures", text_in(pictures, "FILE.pgm")},
                                     {"--threads", number_in(o.threads, 1, 1024)},
                                     {"--seed", number_in(o.seed, 0, ~std::uint64_t{0})}};
  if (asks_for_help(arguments)) {
    std::printf("Trains a diffusion transformer on drawn shapes, and samples. Options, with defaults:\n\n");
    for (Option const& option : table) {
      std::string const name = std::string(option.name) + " " + std::string(option.value.form);
      std::printf("  %-24s%s\n", name.c_str(), option.value.show().c_str());
    }
    return program::done;
  }
  parse(table, arguments);
  Results const r = o.attention == Attention::dense ? train_dense(o) : train_moh(o);
  if (!pictures.empty()) write_pictures(pictures, r.samples);

  auto const known = drawn_images(1, 0, 4000), others = drawn_images(2, 0, o.samples);
  auto const labels = labels_in_turn(o.samples), known_labels = labels_in_turn(4000);
  double const distance = frechet_distance(r.samples, known, pixels),
               agreement = nearest_agreement(r.samples, labels, known, known_labels);
  double const least = frechet_distance(others, known, pixels),
               most = nearest_agreement(others, labels, known, known_labels);
  std::printf("                       this model   drawn shapes\n");
  std::printf("loss                   %10.4f\n", r.loss);
  std::printf("Fréchet distance       %10.3f   %12.3f\n", distance, least);
  std::printf("nearest of its class   %10.3f   %12.3f\n", agreement, most);
  std::printf(R"({"attention": "%s", "blocks": %td, "steps": %td, "seed": %llu, "parameters": %td, "loss": %.5f, )"
              R"("frechet": %.4f, "nearest_of_class": %.4f, "images_per_s": %.0f})"
              "\n",
              std::string(name(o.attention)).c_str(), o.blocks, o.steps, static_cast<unsigned long long>(o.seed),
              r.parameters, r.loss, distance, agreement, r.images_per_s);
  return program::done;
}

}  // namespace
}  // namespace diffusion

int main(int argc, char** argv) {
  return program::run("headmix-diffusion", [&] {
    return diffusion::run(std::vector<std::string_view>(argv + (argc > 0 ? 1 : 0), argv + argc));
  });
}
