// Declarations for blocks of pages that run a module: 512 rows of width 512, and an optimiser's step.
extern view<float const> const x, dy;
void update(view<float> weight, view<float const> gradient);
