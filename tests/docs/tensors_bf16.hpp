// Declarations for the blocks of the GPU's page.
extern view<bfloat16 const> const x, dy;
