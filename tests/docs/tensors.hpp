// Declarations for blocks of pages that run a module: 512 rows of width 512, and an optimiser's step.
inline std::vector<float> const numbers = std::vector<float>(std::size_t{512} * 512, 0.5f);
inline view<float const> const x(numbers.data(), 512, 512), dy = x;
inline void update(view<float> /*weight*/, view<float const> /*gradient*/) {}
