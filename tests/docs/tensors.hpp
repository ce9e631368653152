// What blocks of the pages that run a module work on: 512 rows of width 512, and an optimiser's step.
extern view<float const> const x, dy;
void update(view<float> weight, view<float const> gradient);
